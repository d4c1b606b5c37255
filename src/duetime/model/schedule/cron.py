"""On a cron line: at the wall times that it names, in a time zone."""

from duetime.errors import InvalidInput
from duetime.model.schedule.line import read_line
from duetime.model.schedule.recurrence import Recurrence
from duetime.model.schedule.walk import Walk, cron_walk
from duetime.model.schedule.zone import check_zone


class Cron(Recurrence, frozen=True, tag="cron", omit_defaults=True):
    """Runs at the wall-clock times that a cron line names."""

    line: str
    zone: str = "UTC"

    def __str__(self) -> str:
        return f"cron {self.line!r} in {self.zone}"

    @property
    def goes_by_zone(self) -> bool:
        return self.zone != "UTC"

    def _walk(self) -> Walk:
        return cron_walk(self.line, self.zone, self.exclude)


def make_cron(line: str, zone: str) -> Cron:
    """Check a cron line and its zone."""
    check_zone(zone)
    if not isinstance(line, str):
        raise InvalidInput(f"must be text, not {type(line).__name__}", field="cron", remedy="such as '0 9 * * MON-FRI'")
    read_line(line)
    return Cron(" ".join(line.split()), zone)
