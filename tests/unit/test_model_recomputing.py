"""Another time zone database: whatever the moment at which it arrives, every occurrence fires once."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from duetime.model.cursor_moves import after_zone_change
from duetime.model.schedule import Cron

START = datetime(2026, 3, 2, tzinfo=UTC)
END = START + timedelta(days=9)
# Old and new rules, as two zones whose clocks are never changed: an hour or two apart, either way.
rules = st.tuples(st.integers(-4, 4), st.sampled_from([-2, -1, 1, 2])).map(
    lambda both: (f"Etc/GMT{both[0]:+d}", f"Etc/GMT{both[0] + both[1]:+d}")
)
lines = st.sampled_from(["0 9 * * *", "30 2,14 * * *", "0 */8 * * *", "15 0 * * MON-FRI", "0 0,12 * * *"])


def wall(moment: datetime, zone: str) -> datetime:
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


@settings(max_examples=200, deadline=None)
@given(lines, rules, st.integers(0, 6 * 86_400), st.booleans())
def test_no_occurrence_is_lost_or_fired_twice(
    line: str, zones: tuple[str, str], second: int, fired_before: bool
) -> None:
    old, new = (Cron(line, zone) for zone in zones)
    arrives = START + timedelta(days=1, seconds=second)
    shown: list[datetime] = []
    last, cursor = None, old.next_after(START)
    assert cursor is not None
    while cursor <= arrives:
        shown.append(wall(cursor, zones[0]))
        last, cursor = cursor, old.next_after(cursor)
        assert cursor is not None
    if not fired_before:  # a job that came, or was edited, just before the database did
        last, shown = None, []
    moved = after_zone_change(new, cursor, last, arrives)
    assert last is None or moved > last
    while moved < END:
        shown.append(wall(moved, zones[1]))
        following = new.next_after(moved)
        assert following is not None
        moved = following
    assert shown == [at for at in named(new, zones[1]) if shown[0] <= at <= shown[-1]]


def named(schedule: Cron, zone: str) -> list[datetime]:
    """Every wall time that the line names, around the days looked at."""
    moment, found = START - timedelta(days=3), []
    while (following := schedule.next_after(moment)) is not None and following < END + timedelta(days=3):
        found.append(wall(following, zone))
        moment = following
    return found
