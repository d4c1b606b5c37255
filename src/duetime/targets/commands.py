"""The commands that the operator allows, from a TOML file. A command is an argument vector; nothing else can be run.

    [report]
    argv = ["/usr/local/bin/report", "--day={day}", "{file}"]
    values = { day = "[0-9]{4}-[0-9]{2}-[0-9]{2}" }    # a pattern for a value; others are any text
    folder = "/var/lib/reports"
    user = "reports"
    memory = "512MiB"
    cpu = "30s"
    file_size = "1GiB"
    files = 256

A value is inserted into one argument, whatever it contains: there is no shell and no splitting. A value at the start of
an argument may not begin with a hyphen, so that the program never reads it as an option.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from duetime.errors import InvalidInput, SettingsError
from duetime.settings import kinds

_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_LONGEST = 32 * 1024

_KINDS = {
    "folder": kinds.folder(""),
    "user": kinds.text(""),
    "memory": kinds.size("", 1, 1 << 50),
    "cpu": kinds.duration("", "1s", "30d"),
    "file_size": kinds.size("", 1, 1 << 50),
    "files": kinds.count("", 8, 1_000_000),
}

Value = str | bool | int | float


class Command(msgspec.Struct, frozen=True):
    """One command and its resource limits."""

    argv: tuple[str, ...]
    values: Mapping[str, re.Pattern[str]] = {}
    folder: Path | None = None
    user: str | None = None
    memory: int | None = None
    cpu: int | None = None
    """Seconds of CPU time."""
    file_size: int | None = None
    files: int = 256

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for part in self.argv for name in _PLACE.findall(part))


class Commands:
    def __init__(self, commands: Mapping[str, Command]) -> None:
        self._commands = commands

    def command(self, name: str) -> Command:
        found = self._commands.get(name)
        if found is None:
            remedy = "the operator defines the allowed commands in shell_commands"
            raise InvalidInput(f"{name[:60]!r} is not an allowed command", field="target.command", remedy=remedy)
        return found

    def fill(self, name: str, values: Mapping[str, Value]) -> list[str]:
        """The argument vector. Raises `InvalidInput` for a value that is missing, unexpected, or malformed."""
        command = self.command(name)
        for given in values:
            if given not in command.names:
                raise InvalidInput(
                    "is not an argument of this command", field=f"target.args.{given[:60]}", remedy="remove it"
                )
        texts = {wanted: _text(wanted, values, command) for wanted in sorted(command.names)}
        return [_put(part, texts) for part in command.argv]


def read_commands(path: Path | None) -> Commands:
    """The commands in a file; without a file there are none."""
    if path is None:
        return Commands({})
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
        return Commands({name: _command(name, table) for name, table in tables.items()})
    except (OSError, tomllib.TOMLDecodeError, ValueError, TypeError, re.error) as error:
        raise SettingsError(f"{path} cannot be used: {error}", field="shell_commands") from None


def _command(name: str, table: Any) -> Command:
    if not _NAME.fullmatch(name) or not isinstance(table, dict):
        raise ValueError(f"{name!r} is not a table [name], with a name of letters, digits and _ . -")
    known = {"argv", "values", *_KINDS}
    unknown = sorted(table.keys() - known)
    if unknown:
        raise ValueError(f"{name}.{unknown[0]} is not a field: use {', '.join(sorted(known))}")
    argv = table.get("argv")
    if not isinstance(argv, list) or not argv or not all(isinstance(part, str) and part for part in argv):
        raise ValueError(f"{name}.argv is not a list of arguments")
    if not argv[0].startswith("/") or _PLACE.search(argv[0]):
        raise ValueError(f"{name}.argv must begin with the absolute path of a program")
    read: dict[str, Any] = {each: kind.read(table[each]) for each, kind in _KINDS.items() if each in table}
    if "cpu" in read:
        read["cpu"] = max(1, round(read["cpu"].total_seconds()))
    patterns = table.get("values", {})
    if not isinstance(patterns, dict):
        raise ValueError(f"{name}.values is not a table of patterns")
    return Command(tuple(argv), {each: re.compile(pattern) for each, pattern in patterns.items()}, **read)


def _text(name: str, values: Mapping[str, Value], command: Command) -> str:
    field = f"target.args.{name}"
    if name not in values:
        raise InvalidInput("is missing", field=field, remedy="the command requires it")
    value = values[name]
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if "\x00" in text or len(text) > _LONGEST:
        raise InvalidInput("cannot be an argument", field=field, remedy=f"text of at most {_LONGEST} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput("cannot be an argument", field=field, remedy="text that UTF-8 can encode") from None
    pattern = command.values.get(name)
    if pattern is not None and not pattern.fullmatch(text):
        raise InvalidInput("does not match its pattern", field=field, remedy=f"it must match {pattern.pattern}")
    if text.startswith("-") and any(part.startswith(f"{{{name}}}") for part in command.argv):
        raise InvalidInput("begins with a hyphen", field=field, remedy="the program would read it as an option")
    return text


def _put(part: str, texts: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda place: texts[place[1]], part)
