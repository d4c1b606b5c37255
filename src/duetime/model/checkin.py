"""Check-ins: jobs that run elsewhere, such as cron jobs, and report here with pings.

A check-in expects a ping after each `every`, or at each occurrence of `cron`, and allows `grace` on top. It opens when
a ping is late, when a run that reported its start does not report its end within `max_runtime`, or when a ping reports
a failure. It closes with the next ping that reports success. Before the first ping it expects nothing.

A ping that should have come while no server could receive it proves nothing: the next one is expected from then on.
"""

from datetime import datetime, timedelta
from typing import Literal

import msgspec

from duetime.errors import InvalidInput
from duetime.model.alert import Turn
from duetime.model.alert_messages import link, moment, seconds, with_link
from duetime.model.name import check_name
from duetime.model.notification import Message, Topic
from duetime.model.schedule import EARLIEST, Cron, make_cron

Ping = Literal["start", "success", "fail"]
Reason = Literal["late", "overran", "failed"]
NOTE = 1000
"""Characters of a ping's text that are kept: the last ones."""
_LONGEST = 366 * 86_400.0
_EARLY = timedelta(minutes=1)
"""By how much a ping may come before its occurrence, for clocks that differ."""
_AT_ONCE = timedelta(seconds=5)
"""A ping may be stored while another node judges: it counts as one that came afterwards."""


class CheckIn(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is expected."""

    name: str
    every: float | None = None
    """Seconds from one ping to the next."""
    cron: str | None = None
    tz: str = "UTC"
    grace: float = 300.0
    max_runtime: float | None = None
    """Seconds from a start to its end; None: the grace."""
    description: str | None = None

    @property
    def schedule(self) -> Cron | None:
        return None if self.cron is None else make_cron(self.cron, self.tz).settled(EARLIEST, self.name)

    def expected_after(self, last: datetime) -> datetime | None:
        """When the next ping is expected after one at `last`."""
        if self.every is not None:
            return last + timedelta(seconds=self.every)
        schedule = self.schedule
        assert schedule is not None
        following = schedule.next_after(last)
        if following is None or following - last > min(timedelta(seconds=self.grace), _EARLY):
            return following
        # The ping may have been meant for this occurrence, by a clock that is ahead; of occurrences that are close to
        # each other, half the distance is meant for each.
        later = schedule.next_after(following)
        early = later is None or following - last < (later - following) / 4
        return later if early else following


class StoredCheckIn(msgspec.Struct, frozen=True):
    tenant_id: int
    check: CheckIn
    paused: bool
    created_at: datetime
    ping: Ping | None = None
    """The last one."""
    pinged_at: datetime | None = None
    exit_code: int | None = None
    note: str | None = None
    pings: int = 0
    started_at: datetime | None = None
    """Of a run that has not reported its end."""
    succeeded_at: datetime | None = None
    counts_from: datetime | None = None
    """The next ping is expected after it."""
    revision: int = 0
    """Raised by pings and changes."""
    judge_at: datetime | None = None
    """When it may be late; None: not before the next ping."""
    open: bool = False
    reason: Reason | None = None
    changed_at: datetime | None = None
    version: int = 0
    told: int = 0
    message: Message | None = None

    @property
    def expected_at(self) -> datetime | None:
        """When the next ping is expected."""
        if self.paused or self.counts_from is None or self.started_at is not None:
            return None
        return self.check.expected_after(self.counts_from)

    @property
    def deadline(self) -> datetime | None:
        """When it is late, or overran, if it is not pinged before."""
        grace = timedelta(seconds=self.check.grace)
        if self.started_at is not None and not self.paused:
            return self.started_at + (
                grace if self.check.max_runtime is None else timedelta(seconds=self.check.max_runtime)
            )
        expected = self.expected_at
        return None if expected is None else expected + grace


def judge_checkin(
    stored: StoredCheckIn, now: datetime, served_since: datetime, *, suspended: bool
) -> tuple[StoredCheckIn, Turn | None]:
    """The check-in now. `served_since`: since when pings could arrive without a break. `suspended`: its tenant is, and
    nothing is expected of it."""
    if stored.paused:
        return msgspec.structs.replace(stored, judge_at=None), None
    if suspended:
        if not stored.open and stored.counts_from is not None:
            stored = msgspec.structs.replace(stored, counts_from=now, started_at=None)
        return msgspec.structs.replace(stored, judge_at=now + timedelta(minutes=1)), None
    stored = _forgiven(stored, now, served_since)
    deadline = stored.deadline
    reason: Reason | None = None
    if stored.ping == "fail":
        reason = "failed"
    elif deadline is not None and now >= deadline:
        reason = "late" if stored.started_at is None else "overran"
    judge_at = None if deadline is None or now >= deadline else deadline
    seen = msgspec.structs.replace(stored, judge_at=judge_at)
    if reason is not None and not stored.open:
        opened = msgspec.structs.replace(seen, open=True, reason=reason, changed_at=now, version=seen.version + 1)
        return opened, "opened"
    if stored.open and reason is None and stored.ping == "success" and _is_new(stored):
        return msgspec.structs.replace(seen, open=False, changed_at=now, version=seen.version + 1), "closed"
    return seen, None


def _is_new(stored: StoredCheckIn) -> bool:
    """Whether the last ping came after it opened, and not before a pause or an edit."""
    assert stored.changed_at is not None
    return stored.pinged_at is not None and stored.pinged_at > stored.changed_at - _AT_ONCE


def _forgiven(stored: StoredCheckIn, now: datetime, served_since: datetime) -> StoredCheckIn:
    """Without what a ping that was lost while no server was up may have ended."""
    deadline, expected = stored.deadline, stored.expected_at
    if stored.open or deadline is None or now < deadline:
        return stored
    begin = stored.started_at if expected is None else expected - _EARLY
    if begin is None or served_since <= begin:
        return stored
    counts_from = max(served_since, stored.counts_from or served_since)
    return msgspec.structs.replace(stored, started_at=None, counts_from=counts_from)


def compose_checkin(stored: StoredCheckIn, turn: Turn, before: StoredCheckIn, public_url: str | None) -> Message:
    """The message of a check-in that has just opened or closed. `before`: how it was judged."""
    check = stored.check
    assert stored.changed_at is not None
    url = link(public_url, "/")
    last = f"the last success was at {moment(before.succeeded_at)}" if before.succeeded_at else "it never succeeded"
    expected = before.expected_at
    if turn == "closed":
        text = f"{check.name}: resolved, it reported success at {moment(before.pinged_at or stored.changed_at)}."
    elif stored.reason == "failed":
        code = "" if before.exit_code is None else f" (exit code {before.exit_code})"
        said = f": {before.note.strip().splitlines()[-1][:300]}" if before.note and before.note.strip() else ""
        when = moment(before.pinged_at or stored.changed_at)
        text = f"{check.name}: reported a failure{code} at {when}{said}; {last}. Look at its output where it runs."
    elif stored.reason == "overran":
        assert before.started_at is not None
        most = seconds(check.grace if check.max_runtime is None else check.max_runtime)
        text = (
            f"{check.name}: started at {moment(before.started_at)} and has not reported its end; expected within"
            f" {most}. Check whether it hangs, was killed, or cannot reach this service."
        )
    else:
        when = "" if expected is None else f" at {moment(expected)}, with a grace of {seconds(check.grace)}"
        text = (
            f"{check.name}: no ping arrived; expected one{when}; {last}."
            " Check that its schedule still starts it, and that it can reach this service."
        )
    topic = Topic.CHECKIN_FAILED if stored.reason == "failed" else Topic.CHECKIN_LATE
    data = {
        "checkin": check.name,
        "turn": turn,
        "reason": stored.reason,
        "expected_at": None if expected is None else expected.isoformat(),
        "last_ping_at": None if before.pinged_at is None else before.pinged_at.isoformat(),
        "last_success_at": None if before.succeeded_at is None else before.succeeded_at.isoformat(),
        "exit_code": before.exit_code,
        "url": url,
    }
    return Message(topic, stored.changed_at, with_link(text, url), data)


def make_checkin(check: CheckIn) -> CheckIn:
    """Validate a check-in before it is stored."""
    check_name(check.name, "name")
    if check.every is None and check.cron is None:
        raise InvalidInput("one of every and cron is required", field="every", remedy="such as every=3600")
    if check.every is not None and check.cron is not None:
        raise InvalidInput("cannot be combined with cron", field="every", remedy="give one of them")
    for field, least in (("every", 10.0), ("grace", 0.0), ("max_runtime", 1.0)):
        number = getattr(check, field)
        if number is not None and not least <= number <= _LONGEST:
            raise InvalidInput(f"{number:g} is out of range", field=field, remedy=f"from {least:g} s to 366 days")
    if check.cron is not None:
        make_cron(check.cron, check.tz)
    elif check.tz != "UTC":
        raise InvalidInput("`tz` requires `cron`", field="tz", remedy="omit it")
    return check


def read_ping(text: str) -> tuple[Ping, int | None]:
    """What the last part of a ping's address means: start, success, fail, or an exit code."""
    if text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= 255:
        return ("success" if int(text) == 0 else "fail"), int(text)
    match text:
        case "start" | "success" | "fail":
            return text, None
    raise InvalidInput(
        f"{text[:20]!r} is not a kind of ping",
        field="event",
        remedy="start, success, fail, or an exit code from 0 to 255",
    )


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(CheckIn)


def encode_checkin(check: CheckIn) -> bytes:
    return _encoder.encode(check)


def decode_checkin(body: bytes) -> CheckIn:
    return _decoder.decode(body)
