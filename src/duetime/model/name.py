"""Valid names of tasks, queues, keys and tags."""

import re

from duetime.errors import InvalidInput

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@-]*")
NAME_LIMIT = 200
KEY_LIMIT = 255


def check_name(value: object, field: str) -> str:
    """A name of a task, queue or tag: short, printable, without spaces."""
    if not isinstance(value, str):
        raise InvalidInput(f"must be text, not {type(value).__name__}", field=field)
    if len(value) > NAME_LIMIT:
        raise InvalidInput(f"{len(value)} characters are too many", field=field, remedy=f"at most {NAME_LIMIT}")
    if not _NAME.fullmatch(value):
        raise InvalidInput(
            f"{value[:60]!r} is not a name",
            field=field,
            remedy="letters, digits and _ . : / @ -, starting with a letter, digit or _",
        )
    return value


def check_key(value: object, field: str) -> str:
    """A key chosen by the caller: any printable text."""
    if not isinstance(value, str):
        raise InvalidInput(f"must be text, not {type(value).__name__}", field=field)
    if not value or len(value) > KEY_LIMIT or not value.isprintable():
        raise InvalidInput("is not a valid key", field=field, remedy=f"1 to {KEY_LIMIT} printable characters")
    return value
