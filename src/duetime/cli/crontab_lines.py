"""Parses a crontab line by line, as cron does. No I/O.

MAILTO=ops@example.com          a variable, for the commands below it
CRON_TZ=Europe/Berlin           the time zone of the lines below
0 9 * * 1-5   report --daily    a schedule and a command
@daily        cleanup           a schedule by name
@every 90s    poll              an interval, as some cron implementations allow
0 * * * *     cat > log%hello   the text after the first % is standard input; \\% is a percent sign
"""

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import msgspec

from duetime.model.schedule.cron_line import WORDS

_VARIABLE = re.compile(r"""\s*(["']?)([A-Za-z_][A-Za-z0-9_]*)\1\s*=\s*(.*?)\s*""")
_PERCENT = re.compile(r"(?<!\\)%")


class Entry(msgspec.Struct, frozen=True):
    """One line that runs a command."""

    line: int
    cron: str
    command: str
    stdin: str | None = None
    user: str | None = None
    tz: str | None = None
    env: dict[str, str] = {}

    @property
    def args(self) -> dict[str, Any]:
        """The arguments of the task that runs commands."""
        given = {"command": self.command, "stdin": self.stdin, "user": self.user, "env": self.env or None}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def key(self) -> str:
        """Equal for equal lines, so that importing a file again changes nothing."""
        said = msgspec.json.encode([self.cron, self.tz, self.args], order="deterministic")
        return f"crontab:{sha256(said).hexdigest()[:32]}"


class LeftOut(msgspec.Struct, frozen=True):
    """A line that cannot become a job, and why."""

    line: int
    text: str
    reason: str


def read_crontab(lines: Iterable[str], *, system: bool = False) -> tuple[list[Entry], list[LeftOut]]:
    """`system`: the lines name a user before the command, as in /etc/crontab."""
    entries: list[Entry] = []
    left_out: list[LeftOut] = []
    env: dict[str, str] = {}
    tz: str | None = None
    for number, text in enumerate(lines, 1):
        line = text.strip()
        if not line or line.startswith("#"):
            continue
        variable = _VARIABLE.fullmatch(line)
        if variable is not None:
            name, value = variable[2], _unquoted(variable[3])
            if name == "CRON_TZ":
                tz = value or None
            else:
                env = {**env, name: value}
            continue
        found = _entry(number, line, system=system, tz=tz, env=env)
        if isinstance(found, Entry):
            entries.append(found)
        else:
            left_out.append(LeftOut(number, line, found))
    return entries, left_out


def _entry(number: int, line: str, *, system: bool, tz: str | None, env: dict[str, str]) -> Entry | str:
    """The entry, or the reason why the line is skipped."""
    fields = (2 if line.lower().startswith("@every") else 1) if line.startswith("@") else 5
    parts = line.split(None, fields + system)
    if len(parts) <= fields + system:
        return "the line has no command"
    cron = " ".join(parts[:fields])
    if fields == 1:
        if cron.lower() == "@reboot":
            return "@reboot has no time, and a job needs one"
        named = WORDS.get(cron.lower())
        if named is None:
            return f"{cron} is not a schedule of cron"
        cron = named
    command, stdin = _percent(parts[-1])
    return Entry(number, cron, command, stdin, parts[fields] if system else None, tz, env)


def _percent(command: str) -> tuple[str, str | None]:
    head, *rest = _PERCENT.split(command)
    stdin = "\n".join(rest).replace("\\%", "%") + "\n" if rest else None
    return head.replace("\\%", "%").strip(), stdin


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'" else value
