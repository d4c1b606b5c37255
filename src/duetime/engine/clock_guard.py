"""The guard against steps of the store's clock. Everything that ends or removes data by the clock asks it first.

The store's clock decides which runs are due and which leases have expired, and it can be wrong: after a failover to a
machine with a wrong clock, when a clock is set, or when a host was suspended. A process compares it with monotonic
time. A process that has just started has nothing to compare it with, so the nodes record in the store what they saw
last. When that record is older than the interval between two readings, either the clock stepped or no node ran. Nothing
can distinguish the two.

*Leases*, and with them timeouts and receivers' deadlines, are not judged for one lease after a step forward: live
workers renew theirs meanwhile. A step back needs no pause: the store shifts the timestamps that seem to be in the
future (`Clocks.shift_back`).

*Ages* are counted back from a time that does not run faster than real time while the clock may have stepped forward:
nothing is removed before its retention has really passed. After an hour this time catches up, by one day per hour. A
fleet that was off for 40 days prunes in the end, and a clock that is wrong for hours costs days of history, not all of
it.
"""

import asyncio
import logging
from datetime import datetime, timedelta

from duetime.clock import monotonic
from duetime.duration import format_duration
from duetime.store.protocol.service import ClockSeen
from duetime.store.protocol.store import Store

log = logging.getLogger("duetime.clock")

_STEP = 1.0
"""Seconds by which the clock and monotonic time may differ between two readings without counting as a step."""
_HARMLESS = 0.25
"""A step of this share of a lease costs no worker its runs: a live worker has half of its lease left."""
_KEPT_EVERY = 0.125
"""How often the reading is recorded, as a share of a lease."""
_ABOUT = timedelta(minutes=5)
"""The precision of ages: the gap of a node restart is no reason for doubt."""
_HOLD = timedelta(hours=1).total_seconds()
_CATCH_UP = 24


class ClockGuard:
    """One node's view of the store's clock. Everything in a process that acts on the clock asks the same guard."""

    def __init__(self, store: Store, *, lease: timedelta = timedelta(seconds=15)) -> None:
        self._store = store
        self._lease = lease.total_seconds()
        self._watch = ClockWatch()
        self._steady_at: float | None = None
        """When leases may be judged, in monotonic time; None before the first reading."""
        self._kept_at = 0.0
        self._readings = 0
        self._newest: datetime | None = None
        """The last observation that this node knows to be stored, and how many there were."""
        self._ages = Ages()
        self._turn = asyncio.Lock()
        """Readings are compared in the order in which they are made: the loops of a process share this guard, and an
        answer that is overtaken by a later one would look like a database that went back."""

    async def may_judge_leases(self) -> bool:
        """Whether every live worker has had time to renew its lease since the clock last stepped forward."""
        async with self._turn:
            return await self._may_judge_leases()

    async def _may_judge_leases(self) -> bool:
        seen, at, doubt = await self._read()
        rewound = seen.readings < self._readings
        self._readings = seen.readings
        if rewound:
            # The leases of live workers are as old as the state. They renew them meanwhile.
            self._steady_at = at + self._lease
            stepped, went_back = True, False
            await self._report_rewind(seen)
        elif self._steady_at is None:
            stepped, went_back = self._first_reading(seen, at)
        else:
            least, most = self._watch.step(seen.now, at, doubt=doubt)
            if least <= _STEP and most > self._lease * _HARMLESS and doubt > self._lease * _HARMLESS / 2:
                return False  # the answer took so long that it may hide a step: read again
            stepped, went_back = self._compare(least, most, at)
        self._watch.keep(seen.now, at, doubt=doubt)
        if went_back:
            await self._store.clocks.shift_back()
        if stepped or at - self._kept_at >= self._lease * _KEPT_EVERY:
            # Record the reading that was compared, not the current time: the clock may have stepped meanwhile.
            self._readings = await self._store.clocks.keep_clock_seen(seen.now, stepped=stepped)
            self._newest = seen.now
            self._kept_at = at
        assert self._steady_at is not None
        return monotonic() >= self._steady_at

    async def trusted_now(self) -> datetime:
        """The current time for everything that is done at an age, such as deletion. It does not follow a step of the
        clock at once: see `Ages`."""
        async with self._turn:
            seen, at, _ = await self._read()
            trusted = self._ages.count_from(seen.now, at, seen.trusted_at)
            await self._store.clocks.keep_trusted(trusted, seen.now)
            return trusted

    async def _read(self) -> tuple[ClockSeen, float, float]:
        before = monotonic()
        seen = await self._store.clocks.clock_seen()
        doubt = (monotonic() - before) / 2
        return seen, before + doubt, doubt

    async def _report_rewind(self, seen: ClockSeen) -> None:
        lost = self._newest or seen.now
        if seen.rewind is not None and seen.rewind.at > lost:
            # Another node was first, and has stored an observation since: only it saw how far the database went back.
            log.critical("%s", rewind_text(seen.rewind.lost, seen.rewind.kept))
            return
        await self._store.clocks.keep_rewind(seen.now, lost)
        log.critical("%s", rewind_text(lost, seen.seen_at))
        survey, workers = await self._store.survey.survey(), await self._store.leases.workers()
        log.critical(
            "found after that: %s runs are due and wait, %s dead letters, %s workers. Runs whose end was lost run"
            " again, schedules fire again what they fired in the lost time, and expired leases are ignored for %s",
            *(sum(survey.waiting.values()), survey.dead_letters, len(workers)),
            format_duration(timedelta(seconds=self._lease)),
        )

    def _first_reading(self, seen: ClockSeen, at: float) -> tuple[bool, bool]:
        """Whether the clock may have stepped forward since the last recorded reading, and whether it stepped back."""
        unseen = None if seen.seen_at is None else (seen.now - seen.seen_at).total_seconds()
        if unseen is None or unseen > self._lease * _HARMLESS:
            self._steady_at = at + self._lease
            if unseen is not None:
                log.info(
                    "no node read the database's clock for %s, or the clock stepped: expired leases are ignored for %s",
                    format_duration(timedelta(seconds=round(unseen, 1))),
                    format_duration(timedelta(seconds=self._lease)),
                )
            return True, False
        steady_for = 0.0 if seen.stepped_at is None else (seen.now - seen.stepped_at).total_seconds()
        self._steady_at = at + self._lease - max(0.0, steady_for)
        return False, unseen < 0

    def _compare(self, least: float, most: float, at: float) -> tuple[bool, bool]:
        """Whether the clock stepped forward, or may have, and whether it stepped back."""
        if least > _STEP or most > self._lease * _HARMLESS:
            self._steady_at = at + self._lease
            if least > _STEP:
                log.warning(
                    "the database's clock stepped by %+.1f s: expired leases are ignored for one lease period", least
                )
            return True, False
        if most < -_STEP:
            log.warning("the database's clock stepped by %+.1f s", most)
        return False, most < -_STEP


def rewind_text(lost: datetime, kept: datetime | None) -> str:
    """What a rewind means: `lost` is the last moment that is known to be lost, `kept` the last one that is left."""
    back = "" if kept is None else f" by about {max(0.0, (lost - kept).total_seconds()):.1f} s, to {kept:%F %T} UTC"
    return (
        f"the database went back{back}: a standby without the last commits took over, or a backup was restored."
        " What was accepted since is lost"
    )


class ClockWatch:
    """Compares the store's clock with monotonic time, from one reading to the next."""

    def __init__(self) -> None:
        self._last: tuple[datetime, float, float] | None = None

    def step(self, now: datetime, at: float, *, doubt: float = 0.0) -> tuple[float, float]:
        """By how many seconds the clock moved more than monotonic time since the kept reading: at least, and at most.
        `doubt`: by how much it may have been read before or after `at`."""
        if self._last is None:
            return 0.0, 0.0
        difference = (now - self._last[0]).total_seconds() - (at - self._last[1])
        doubt += self._last[2]
        return difference - doubt, difference + doubt

    def keep(self, now: datetime, at: float, *, doubt: float = 0.0) -> None:
        """Compare with this reading from now on."""
        self._last = (now, at, doubt)


class Ages:
    """The time from which ages are counted back, for a clock that may step."""

    def __init__(self) -> None:
        self._last: tuple[datetime, float] | None = None
        self._doubted_at: float | None = None

    def count_from(self, now: datetime, at: float, before: datetime | None) -> datetime:
        """The time to count back from when the clock shows `now`. `before`: the last answer of any node."""
        last, then = self._last or (before or now, at)
        passed = at - then
        if now - last <= timedelta(seconds=passed) + _ABOUT:
            self._doubted_at = None
            trusted = now
        else:
            if self._doubted_at is None:
                self._doubted_at = at
                log.warning(
                    "the database's clock stepped forward by %s, or no node ran: ages are counted from the time before"
                    " for an hour, then catch up",
                    format_duration(timedelta(seconds=round((now - last).total_seconds() - passed))),
                )
            speed = 1 if at - self._doubted_at < _HOLD else _CATCH_UP
            trusted = min(now, last + timedelta(seconds=passed * speed))
        self._last = (trusted, at)
        return trusted
