"""A cron line: fires at the wall times that it names, in a time zone."""

from datetime import datetime

import msgspec

from duetime.errors import InvalidInput
from duetime.model.schedule.cron_hash import is_hashed, settled_line
from duetime.model.schedule.cron_line import read_lines
from duetime.model.schedule.recurrence import Recurrence
from duetime.model.schedule.walk import Walk, cron_walk
from duetime.model.schedule.zone import check_zone


class Cron(Recurrence, frozen=True, tag="cron", omit_defaults=True):
    """Runs at the wall times that a cron line names, or several lines with semicolons between them."""

    line: str
    zone: str = "UTC"

    def settled(self, moment: datetime, seed: str) -> "Cron":
        if not is_hashed(self.line):
            return self
        return msgspec.structs.replace(self, line=settled_line(self.line, seed))

    def __str__(self) -> str:
        return f"cron {self.line!r} in {self.zone}"

    @property
    def goes_by_zone(self) -> bool:
        return self.zone != "UTC"

    def _make_walk(self) -> Walk:
        return cron_walk(self.line, self.zone, self.exclude)


def make_cron(line: str, zone: str) -> Cron:
    """Validate a cron line and its zone. A line with `H` keeps its original text, as a schedule in words does."""
    check_zone(zone)
    if not isinstance(line, str):
        raise InvalidInput(f"must be text, not {type(line).__name__}", field="cron", remedy="such as '0 9 * * MON-FRI'")
    read_lines(settled_line(line, ""))
    plain = "; ".join(" ".join(part.split()) for part in line.split(";"))
    return Cron(plain, zone, said=plain if is_hashed(plain) else None)


def on_both_days(line: str) -> str:
    """The same line, for days that match both the day of month and the day of week: `0 0 13 * +FRI`."""
    return "; ".join(_on_both(part.split()) for part in line.split(";"))


def _on_both(fields: list[str]) -> str:
    at = 5 if len(fields) == 7 else len(fields) - 1
    return " ".join(f"+{text}" if index == at and text[0] not in "+*?@" else text for index, text in enumerate(fields))
