"""Options of a job that several commands share, and how they are parsed."""

import inspect
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
import typer
from rich.markup import escape

from duetime.errors import InvalidInput
from duetime.spec.derived import OPTIONS, Declared

Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME=VALUE…", help="Arguments: [bold]to=you[/] is text, [bold]count:=3[/] is JSON."),
]
Args = Annotated[str | None, typer.Option("--args", help="All arguments as one JSON object.")]


def flags_of(options: Iterable[Declared], taken: Collection[str] = ()) -> dict[str, inspect.Parameter]:
    """A command parameter for each option, in addition to the command's own."""
    return {
        each.name: inspect.Parameter(
            f"option_{each.name}",  # the prefix avoids clashes with the command's own parameters, such as the API key
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[each.kind.flag | None, typer.Option(each.flag, help=_help(each))],
        )
        for each in options
        if each.name not in taken
    }


def _help(declared: Declared) -> str:
    example = declared.option.example
    such_as = "" if example is None or isinstance(example, list) else f" For example {example}."
    repeated = " May be repeated." if declared.kind.flag == list[str] else ""
    return escape(declared.option.doc.replace("`", "") + such_as + repeated)


def read_flags(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a job in JSON form, from the given flags."""
    found = {}
    for name, value in given.items():
        if value is not None and value != []:
            try:
                found[name] = OPTIONS[name].kind.typed(value)
            except InvalidInput as error:
                raise InvalidInput(error.message, field=name, remedy=error.remedy) from None
    return found


def read_arguments(pairs: list[str] | None, args: str | None) -> dict[str, Any] | None:
    found = {} if args is None else check_object(read_json(args, "args"), "args", """such as '{"to": "you"}'""")
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip(":"):
            raise InvalidInput(f"{pair!r} is not an argument", field="arguments", remedy="name=text or name:=json")
        found[name.removesuffix(":")] = read_json(value, name[:-1]) if name.endswith(":") else value
    return found or None


@contextmanager
def arguments_as_given(pairs: list[str] | None) -> Iterator[None]:
    """When an argument that was given as text is refused, and would be something else as JSON: say how to give that."""
    try:
        yield
    except InvalidInput as error:
        name = (error.field or "").removeprefix("args.")
        text = next((text for key, equals, text in (each.partition("=") for each in pairs or ()) if key == name), None)
        if text is None or error.remedy is not None or not _is_other_json(text):
            raise
        remedy = f"as JSON: {shlex.quote(f'{name}:={text}')}"
        raise InvalidInput(error.message, field=error.field, remedy=remedy) from None


def _is_other_json(text: str) -> bool:
    try:
        return not isinstance(msgspec.json.decode(text), str)
    except msgspec.DecodeError:
        return False


def read_json(text: str, field: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"is not JSON: {error}", field=field) from None


def check_object(value: object, field: str, remedy: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput("is not a JSON object", field=field, remedy=remedy)
    return value
