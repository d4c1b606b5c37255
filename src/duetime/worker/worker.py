"""The worker: a lease, and the runs that it holds under it.

A worker runs sessions. A session is one lease; while it lasts, runs are claimed, attempted and completed. When the
lease is lost the session's runs are stopped, their outcomes are dropped, and a new session begins under a new id: the
database's decision is final. A worker that is stopped claims no more, lets its runs finish within the grace period, and
hands the rest back without spending an attempt.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from uuid import UUID

from duetime.clock import monotonic
from duetime.errors import StoreError, StoreUnavailable, reason_of
from duetime.ids import show
from duetime.model.completion import complete
from duetime.model.defaults import Defaults
from duetime.model.worker import Renewal, WorkerInfo
from duetime.process.loop import Loop, retry_until_available
from duetime.store.protocol.store import Hint
from duetime.store.shared.health_reporter import Reporter
from duetime.targets.runner import TargetRunner
from duetime.telemetry.meters import Meters
from duetime.telemetry.traces import Tracer
from duetime.version import __version__
from duetime.worker.attempts import Attempts, Observer
from duetime.worker.backlog import GIVEN_BACK
from duetime.worker.capacity import WorkerLimits
from duetime.worker.claimer import MOST_BACKLOG
from duetime.worker.completer import Completer
from duetime.worker.heartbeat import Heartbeat
from duetime.worker.hooks import MOST_WAITING, Hooks
from duetime.worker.running_attempt import Stop
from duetime.worker.session import Session
from duetime.worker.source import Source, Wants
from duetime.worker.switch_interval import short_switch_interval
from duetime.worker.task import TaskDefinition, argument_schemas
from duetime.worker.unknown_runs import UnknownRuns

log = logging.getLogger("duetime.worker")

_CANCELS_EVERY = 1.0
_STOP_DEADLINE = 5.0
_MOST_COMPARED = 1000
"""Claims, and runs, in one comparison: a claim has no more runs than that."""


class Worker:
    """Runs tasks until it is stopped. Create and run it on one event loop."""

    def __init__(
        self,
        source: Source,
        tasks: Mapping[str, TaskDefinition],
        limits: WorkerLimits,
        *,
        defaults: Mapping[str, Defaults] | None = None,
        targets: TargetRunner | None = None,
        observe: Observer | None = None,
        meters: Meters | None = None,
        tracer: Tracer | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        self._source = source
        self._limits = limits
        self._defaults = dict(defaults or {})
        self._schemas = {} if defaults is None else argument_schemas(tasks[name] for name in defaults)
        self._stopping = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._lost = asyncio.Event()
        self._session: Session | None = None
        self._unknown_cancels = UnknownRuns(limits.lease.total_seconds())
        """Runs that it is asked to cancel and does not hold."""
        self._unknown_claims = UnknownRuns(limits.lease.total_seconds())
        """Other runs that the store has under its claims."""
        self._compare_at = 0.0
        self._pulse = None if meters is None else meters.pulse
        self._completer = Completer(source)
        self._attempts = attempts = Attempts(
            source,
            tasks,
            limits,
            self._completer,
            lambda: self._claimer.slot_freed(),
            targets=targets,
            observe=observe,
            meters=meters,
            tracer=tracer,
            hooks=hooks or Hooks(),
        )
        reporter = Reporter(source.report_attempts, attempts.health, limits.breakers)
        self._claimer = source.claimer(
            Wants(
                slots=attempts.slots,
                trials=attempts.trials,
                places={name: task.place for name, task in attempts.tasks.items()},
                queues=limits.queues,
                poll=limits.poll,
                start=attempts.start,
                holds=attempts.holds,
                abandon=attempts.abandon,
                backlog=self._backlog,
                rewound=self._database_went_back,
                strict=limits.strict,
                open_targets=lambda: attempts.health.open_now,
            )
        )
        self._cancels = Loop("cancellations", self._look_for_cancels)
        self._loops = [
            *self._claimer.loops,
            self._cancels,
            Loop("notes", attempts.progress_reports.tick),
            reporter.loop,
        ]

    @property
    def id(self) -> UUID | None:
        """The id of the current session."""
        return None if self._session is None else self._session.id

    @property
    def running(self) -> int:
        return len(self._attempts)

    def holds(self, run_id: UUID) -> bool:
        """Whether a run is in progress here."""
        return self._attempts.holds(run_id)

    @property
    def completed(self) -> int:
        return self._completer.completed

    def stop(self) -> None:
        """Claim no more, and finish running attempts within the grace period. A second call stops at once."""
        if self._stopping.is_set():
            self._stop_now.set()
        self._stopping.set()

    async def run(self) -> None:
        """Run until stopped."""
        stop_listening = self._source.listen(self._hinted)
        try:
            with short_switch_interval() if self._source.embedded else nullcontext():
                await self._run_sessions()
        finally:
            stop_listening()
            await self._claimer.close()
            self._attempts.close()
            await self._attempts.reports.calls.close()

    async def _run_sessions(self) -> None:
        async with asyncio.TaskGroup() as group:
            completing = group.create_task(self._completer.run(), name="duetime completer")
            loops = [group.create_task(loop.run(), name=f"duetime {loop.name}") for loop in self._loops]
            try:
                while not self._stopping.is_set():
                    await self._run_session()
            finally:
                for loop in self._loops:
                    loop.stop()
                await asyncio.wait(loops, timeout=_STOP_DEADLINE)
                for task in (*loops, completing):
                    task.cancel()

    async def _run_session(self) -> None:
        """One session, from registration until it is stopped or its lease is lost."""
        session = Session()
        self._lost.clear()
        self._unknown_cancels.forget()
        self._unknown_claims.forget()
        heartbeat = await self._register(session)
        if heartbeat is None:
            return
        self._session = session
        self._claimer.begin(session)
        try:
            await _first_of(self._stopping, self._lost)
            self._claimer.session = None
            if not self._lost.is_set():
                await self._claimer.stopped_claiming(_STOP_DEADLINE)
                await self._finish_within_grace()
        finally:
            # When the lease is lost, wait for nothing: the runs must stop before another worker can start them.
            self._claimer.session = None
            session.over = True
            heartbeat.stop()
            await self._end_session(session)
            if not self._lost.is_set():
                await heartbeat.stopped()
            self._session = None

    async def _register(self, session: Session) -> Heartbeat | None:
        backoff = 0.1
        while not self._stopping.is_set():
            sent = monotonic()
            try:
                session.id = await self._source.register(self._describe(session), self._limits.lease)
            except StoreUnavailable as error:
                log.warning("cannot register: %s", reason_of(error))
                await _first_of(self._stopping, timeout=backoff)
                backoff = min(2.0, backoff * 2)
                continue
            heartbeat = Heartbeat(
                self._source,
                session,
                lease=self._limits.lease,
                interval=self._limits.heartbeat,
                registered_at=sent,
                renewed=self._renewed,
                lost=self._lease_lost,
                in_thread=self._limits.heartbeat_thread,
                pulse=self._pulse,
            )
            heartbeat.start()
            log.info("%s registered: %d tasks", show("wrk", session.id), len(self._attempts.tasks))
            return heartbeat
        return None

    def _describe(self, session: Session) -> WorkerInfo:
        name = f"{socket.gethostname()}:{os.getpid()}"
        return WorkerInfo(
            session.id,
            name,
            tuple(sorted(self._attempts.tasks)),
            self._limits.queues,
            self._attempts.slots.total,
            version=f"duetime {__version__}",
            defaults=self._defaults,
            schemas=self._schemas,
        )

    async def _finish_within_grace(self) -> None:
        if self._attempts:
            log.info("stopping: %d runs have %s to finish", len(self._attempts), self._limits.grace)
        await _first_of(self._attempts.idle, self._stop_now, self._lost, timeout=self._limits.grace.total_seconds())

    async def _end_session(self, session: Session) -> None:
        """Stop the remaining runs, hand them back unless the lease is lost, and end the lease."""
        reason = Stop.LEASE_LOST if self._lost.is_set() else Stop.SHUTDOWN
        unanswered = self._claimer.unanswered(session)
        left = self._attempts.under_way()
        for running in left:
            self._attempts.stop(running, reason)
        if left:
            await _first_of(self._attempts.idle, timeout=1.0)
        if reason is Stop.LEASE_LOST:
            return
        try:
            async with asyncio.timeout(_STOP_DEADLINE):
                await self._completer.drained()
                abandoned = [running for running in left if not running.reported]
                for running in abandoned:
                    running.reported = True
                # Runs that have started and run at most once are left to the reaper.
                back = {running.claimed.run_id: running for running in abandoned if running.may_start_again}
                if back:
                    for run_id in await retry_until_available(lambda: self._source.held_in_transactions(list(back))):
                        back.pop(run_id, None)
                pairs = []
                for run_id, running in back.items():
                    if running.must_not_expire:
                        snoozed = complete(running.claimed, GIVEN_BACK, running.logs())
                        self._completer.add(running.session, snoozed, running.claim_no)
                    else:
                        pairs.append((run_id, running.claimed.fence))
                await self._completer.drained()
                await retry_until_available(lambda: self._source.release(session.id, unanswered))
                await retry_until_available(lambda: self._source.hand_back(session.id, pairs))
                await retry_until_available(lambda: self._source.leave(session.id))
        except TimeoutError:
            log.warning("could not hand back %d runs, the reaper will free them: no answer in time", len(left))
        except StoreError as error:
            log.warning("could not hand back %d runs, the reaper will free them: %s", len(left), reason_of(error))

    # Callbacks of the source and the heartbeat.

    def _backlog(self) -> int:
        """The completions that wait for the store. Waiting calls of hooks count as well, so that their number stays
        bounded."""
        return self._completer.backlog + self._attempts.reports.calls.waiting * (MOST_BACKLOG // MOST_WAITING)

    def _hinted(self, hint: Hint) -> None:
        if hint is Hint.READY:
            self._claimer.hint()
        else:
            self._cancels.wake()

    def _renewed(self, renewal: Renewal) -> None:
        unknown = self._attempts.cancel(renewal.cancelled)
        self._unknown_cancels.named(unknown, monotonic(), self._completer.answered_until)

    def _lease_lost(self, session: Session) -> None:
        if session is self._session:
            self._lost.set()

    def _database_went_back(self) -> None:
        if self._session is not None:
            log.error("the database went back to an earlier state: the worker stops its runs and registers again")
            self._lost.set()

    async def _look_for_cancels(self) -> float:
        session = self._session
        if session is not None and self._attempts:
            self._attempts.cancel(await self._source.cancellations(session.id))
            self._attempts.count_durations()
            await self._compare(session)
            if session is self._session:
                await self._disown(session)
        return _CANCELS_EVERY

    async def _compare(self, session: Session) -> None:
        """Once per lease, compare the runs held under older claims with what the store has there."""
        now, lease = monotonic(), self._limits.lease.total_seconds()
        if now < self._compare_at:
            return
        self._compare_at = now + lease
        held = self._attempts.held_under(session, session.held_since(now - lease))
        answered_until = self._completer.answered_until
        found: list[UUID] = []
        for claim_nos in _in_turn(held):
            run_ids = [run_id for claim_no in claim_nos for run_id in held[claim_no]]
            found += await self._source.unaccounted(session.id, claim_nos, run_ids)
        self._unknown_claims.named(found, now, answered_until)

    async def _disown(self, session: Session) -> None:
        """Disown the unknown runs, unless a transaction of their task may still end them."""
        apart = self._completer.apart
        certain = {*self._unknown_cancels.for_certain, *self._unknown_claims.for_certain}
        unknown = sorted(run_id for run_id in certain if run_id not in apart and not self._attempts.holds(run_id))
        for start in range(0, len(unknown), _MOST_COMPARED):
            await self._source.disown(session.id, unknown[start : start + _MOST_COMPARED])
        if unknown:
            log.warning(
                "disowned %d runs: the store listed them under claims of this worker, which does not hold them",
                len(unknown),
            )
            self._unknown_cancels.forget()
            self._unknown_claims.forget()


def _in_turn(held: Mapping[int, Sequence[UUID]]) -> Iterator[list[int]]:
    """Claims, in groups that may be sent together with their runs."""
    claims: list[int] = []
    runs = 0
    for claim_no, run_ids in held.items():
        if claims and (runs + len(run_ids) > _MOST_COMPARED or len(claims) >= _MOST_COMPARED):
            yield claims
            claims, runs = [], 0
        claims.append(claim_no)
        runs += len(run_ids)
    if claims:
        yield claims


async def _first_of(*events: asyncio.Event, timeout: float | None = None) -> None:
    """Wait until one of the events is set, or the timeout has passed."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
