"""Why JSON does not fit a type: msgspec's message, taken apart."""

import re
from typing import Any, NamedTuple

from duetime.codec.conversions import Refused
from duetime.codec.type_lookup import choice_error
from duetime.errors import InvalidInput, PayloadMismatch

_WHERE = re.compile(r" - at (?:`key` in )?`\$(?P<path>[^`]*)`$")
_TYPES = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<found>[^`]+)`")
_FIELD = re.compile(r"Object (?P<how>missing required|contains unknown) field `(?P<name>[^`]+)`")


class Problem(NamedTuple):
    path: str
    message: str
    found: str | None = None
    expected: str | None = None
    remedy: str | None = None

    def as_input(self) -> InvalidInput:
        return InvalidInput(self.message, field=self.path, remedy=self.remedy)

    def as_mismatch(self, task: str) -> PayloadMismatch:
        return PayloadMismatch(
            f"does not fit {task}: {self.message}{f' ({self.remedy})' if self.remedy else ''}",
            task=task,
            path=self.path,
            found=self.found,
            expected=self.expected,
        )


def problem_of(error: Exception, root: str, kind: Any) -> Problem:
    """The problem that decoding into a type found, with its path from `root`."""
    text = str(error) or type(error).__name__
    path = root
    if (where := _WHERE.search(text)) is not None:
        text, path = text[: where.start()], root + where["path"]
    if isinstance(error.__cause__, Refused):
        text, path = str(error.__cause__), path + error.__cause__.path
    if (kinds := _TYPES.fullmatch(text)) is not None:
        message = f"expected {kinds['expected']}, got {kinds['found']}"
        return Problem(path, message, kinds["found"], kinds["expected"])
    if (field := _FIELD.fullmatch(text)) is not None:
        path = f"{path}.{field['name']}"
        if field["how"].startswith("missing"):
            return Problem(path, "is required", "nothing", "a value")
        return Problem(path, "is not known here", "a value", "nothing")
    if (choice := choice_error(text, kind, path.removeprefix(root))) is not None:
        return Problem(path, choice.message, remedy=choice.remedy)
    return Problem(path, text.replace("`", ""))
