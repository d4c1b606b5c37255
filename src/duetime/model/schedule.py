"""When a job runs.

    Once      now, at a moment, or after a delay: one run
    Cron      on a cron line, in a time zone
    Every     at a fixed interval from an anchor

A recurring schedule is a pure function from a moment to the next fire after it. It never looks at the previous run:
a crash loop cannot end a cron job, and any number of schedulers compute the same fires.
"""

import math
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError

from duetime.duration import format_duration, parse_duration
from duetime.errors import InvalidInput

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
SHORTEST_INTERVAL = timedelta(seconds=1)


class UnusableSchedule(Exception):
    """A stored schedule cannot be computed any more (its zone is gone): its job must be set aside."""


class Once(msgspec.Struct, frozen=True, tag="once", omit_defaults=True):
    """One run: at a moment, or after a delay counted on the database's clock; now when neither is given."""

    at: datetime | None = None
    delay: timedelta | None = None


class Cron(msgspec.Struct, frozen=True, tag="cron", omit_defaults=True):
    """Runs at the wall-clock times that a cron line names."""

    line: str
    zone: str = "UTC"

    def next_after(self, moment: datetime) -> datetime | None:
        return _next_cron(self.line, self.zone, moment)

    def latest_until(self, moment: datetime) -> datetime | None:
        return _latest_cron(self.line, self.zone, moment)

    def __str__(self) -> str:
        return f"cron {self.line!r} in {self.zone}"


class Every(msgspec.Struct, frozen=True, tag="every", omit_defaults=True):
    """Runs at anchor, anchor + interval, anchor + 2 × interval and so on."""

    interval: timedelta
    anchor: datetime | None = None
    """Set when the job is stored; with no `start_at` it is the moment of creation, which itself does not fire."""

    def anchored(self, moment: datetime) -> "Every":
        return self if self.anchor else Every(self.interval, moment + self.interval)

    def next_after(self, moment: datetime) -> datetime | None:
        anchor = self._anchor()
        if moment < anchor:
            return anchor
        following = anchor + ((moment - anchor) // self.interval + 1) * self.interval
        return following if following < LATEST else None

    def latest_until(self, moment: datetime) -> datetime | None:
        anchor = self._anchor()
        if moment < anchor:
            return None
        return anchor + (moment - anchor) // self.interval * self.interval

    def __str__(self) -> str:
        return f"every {format_duration(self.interval)}"

    def _anchor(self) -> datetime:
        if self.anchor is None:
            raise UnusableSchedule("an interval without an anchor")
        return self.anchor


Recurring = Cron | Every
Schedule = Once | Cron | Every

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Schedule] = msgspec.json.Decoder(Schedule)
NOW = Once()


def encode_schedule(schedule: Schedule) -> bytes:
    return _encoder.encode(schedule)


@lru_cache(maxsize=4096)
def decode_schedule(body: bytes) -> Schedule:
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise UnusableSchedule(f"the stored schedule cannot be read: {error}") from error


def make_schedule(
    *,
    run_at: datetime | str | None = None,
    run_in: timedelta | str | float | None = None,
    cron: str | None = None,
    every: timedelta | str | float | None = None,
    tz: str | None = None,
    start_at: datetime | str | None = None,
) -> Schedule:
    """Turn what a caller wrote into a schedule, or say which part cannot be used."""
    given = [
        name
        for name, value in (("run_at", run_at), ("run_in", run_in), ("cron", cron), ("every", every))
        if value is not None
    ]
    if len(given) > 1:
        raise InvalidInput(f"{' and '.join(given)} exclude each other", field=given[1], remedy="give one of them")
    if tz is not None and cron is None:
        raise InvalidInput("a time zone goes with cron", field="tz", remedy="leave it out, or give cron=")
    if start_at is not None and every is None:
        raise InvalidInput("start_at goes with every", field="start_at", remedy="leave it out, or give every=")
    if run_at is not None:
        return Once(at=check_moment(run_at, "run_at"))
    if run_in is not None:
        return Once(delay=_duration(run_in, "run_in"))
    if cron is not None:
        return make_cron(cron, "UTC" if tz is None else tz)
    if every is not None:
        interval = _duration(every, "every")
        if interval < SHORTEST_INTERVAL:
            raise InvalidInput(f"{every} is too short", field="every", remedy="at least 1s")
        return Every(interval, check_moment(start_at, "start_at") if start_at is not None else None)
    return NOW


def make_cron(line: str, zone: str) -> Cron:
    """Check a cron line and its zone by computing with them once."""
    if not isinstance(line, str) or not line.isascii():
        raise InvalidInput("is not a cron line", field="cron", remedy="five fields, such as '0 9 * * MON-FRI'")
    check_zone(zone)
    try:
        found = next(CronSim(line, EARLIEST))
    except CronSimError as error:
        raise InvalidInput(f"{line!r} is not a cron line: {error}", field="cron") from None
    except StopIteration:
        found = None
    if found is None:
        raise InvalidInput(f"{line!r} never fires", field="cron")
    return Cron(" ".join(line.split()), zone)


def check_zone(zone: object) -> str:
    """A name in the time zone database."""
    try:
        _zone(zone)
    except (UnusableSchedule, TypeError):
        raise InvalidInput(
            f"{str(zone)[:60]!r} is not a time zone", field="tz", remedy="a name such as Europe/Berlin"
        ) from None
    assert isinstance(zone, str)
    return zone


def check_moment(value: object, field: str) -> datetime:
    """A moment with its offset, in UTC. A naive time means different moments on different machines."""
    if isinstance(value, str):
        text = value
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            raise InvalidInput(
                f"{text[:60]!r} is not a time",
                field=field,
                remedy="RFC 3339, such as 2026-11-15T09:00:00+01:00",
            ) from None
    if not isinstance(value, datetime):
        raise InvalidInput(f"must be a datetime, not {type(value).__name__}", field=field)
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidInput(
            f"{value.isoformat()} has no time zone",
            field=field,
            remedy="use an aware datetime, with tzinfo or an offset",
        )
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        moment = LATEST
    if not EARLIEST <= moment < LATEST:
        raise InvalidInput(f"{value.isoformat()} is out of range", field=field, remedy="from 1970 to 9000")
    return moment


def _duration(value: timedelta | str | float, field: str) -> timedelta:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"{value} is not a duration", field=field)
    try:
        return parse_duration(value)
    except (ValueError, TypeError) as error:
        raise InvalidInput(str(error), field=field) from None


@lru_cache(maxsize=1024)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UnusableSchedule(f"the time zone {name!r} is not known here") from error


@lru_cache(maxsize=65_536)
def _next_cron(line: str, zone: str, moment: datetime) -> datetime | None:
    return _step_cron(line, zone, moment, reverse=False)


def _latest_cron(line: str, zone: str, moment: datetime) -> datetime | None:
    # The reverse walk is exclusive, so it starts one whole second later to include the moment itself.
    return _step_cron(line, zone, moment.replace(microsecond=0) + timedelta(seconds=1), reverse=True)


def _step_cron(line: str, zone: str, moment: datetime, *, reverse: bool) -> datetime | None:
    try:
        found = next(CronSim(line, moment.astimezone(_zone(zone)), reverse=reverse))
    except (StopIteration, OverflowError):
        return None
    except CronSimError as error:
        raise UnusableSchedule(f"the cron line {line!r} cannot be read: {error}") from error
    return found.astimezone(UTC)
