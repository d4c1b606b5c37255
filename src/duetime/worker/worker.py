"""The worker: slots, a lease, and everything that happens to a run between its claim and its completion.

A worker runs sessions. A session is one lease; while it lasts, runs are claimed, tried and completed. When the lease is
lost the session's runs are stopped, what they come to is dropped, and a new session begins under a new id: a worker
never argues with the database. When the worker is told to stop it claims no more, lets what runs finish for as long as
the grace period, and hands the rest back without spending an attempt.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import timedelta
from uuid import UUID

import msgspec

from duetime.clock import monotonic
from duetime.errors import StoreError, StoreUnavailable
from duetime.ids import show
from duetime.loop import Loop
from duetime.model.attempt import Claimed, Completion
from duetime.model.breaker import BreakerPolicy
from duetime.model.completing import complete, timed_out, too_late
from duetime.model.failure import Failure, FailureClass
from duetime.model.health import Health, target_of
from duetime.model.job import decode_options
from duetime.model.lane import LaneKey
from duetime.model.outcome import Cancelled, Failed, Outcome, Succeeded
from duetime.model.target import kind_of
from duetime.model.tracing import message_of
from duetime.model.worker import Renewal, WorkerInfo
from duetime.store.protocol import Hint
from duetime.store.reporting import Reporter
from duetime.targets.runner import TargetRunner
from duetime.telemetry.meters import Meters
from duetime.telemetry.traces import AttemptSpan, Tracer
from duetime.version import __version__
from duetime.worker.completer import Completer
from duetime.worker.context import Context
from duetime.worker.deadlines import DeadlineWheel
from duetime.worker.executor import Executor, LoopExecutor
from duetime.worker.heartbeat import Heartbeat
from duetime.worker.notes import Notes
from duetime.worker.processes import ProcessExecutor
from duetime.worker.running import Running, Stop
from duetime.worker.session import Session
from duetime.worker.slots import Slots
from duetime.worker.source import Source, Wants
from duetime.worker.switching import quick_turns
from duetime.worker.targets import TargetExecutor
from duetime.worker.task import Place, TaskDefinition, target_definition
from duetime.worker.threads import ThreadExecutor
from duetime.worker.trials import Trials

log = logging.getLogger("duetime.worker")

_CANCELS_EVERY = 1.0
_STOP_DEADLINE = 5.0
_COUNTED_TOGETHER = 256


Observer = Callable[[str, Claimed, Completion], None]
"""Told of every attempt that ended: its task, the claim, and what the store will be told."""


class WorkerLimits(msgspec.Struct, frozen=True):
    """How much a worker takes on, and how long things may take."""

    slots: int = 200
    threads: int = 16
    processes: int = 2
    queues: tuple[str, ...] = ()
    lease: timedelta = timedelta(seconds=15)
    heartbeat: timedelta = timedelta(seconds=5)
    grace: timedelta = timedelta(seconds=30)
    poll: timedelta = timedelta(milliseconds=500)
    max_result: int = 64 * 1024
    max_log_lines: int = 200
    strict: bool = False
    """Whether a higher tier always goes first, instead of by shares."""
    breakers: BreakerPolicy = BreakerPolicy()
    calls: int = 500
    """How many targets are called at once, and how many commands run, by a worker that has targets."""
    commands: int = 4
    heartbeat_thread: bool = True
    """Off in a simulation, where one event loop is all that runs."""


class Worker:
    """Runs tasks until it is stopped. Made and run on one event loop."""

    def __init__(
        self,
        source: Source,
        tasks: Mapping[str, TaskDefinition],
        limits: WorkerLimits,
        *,
        targets: TargetRunner | None = None,
        observe: Observer | None = None,
        meters: Meters | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self._observe = observe
        self._meters = Meters() if meters is None else meters
        self._tracer = tracer
        self._durations: list[float] = []
        """Of attempts that ended, until a few are counted together."""
        self._source = source
        self._tasks = {**tasks, **{kind: target_definition(kind) for kind in (targets.tasks if targets else ())}}
        self._limits = limits
        self._running: dict[UUID, Running] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._lost = asyncio.Event()
        self._session: Session | None = None
        self._trials = Trials()
        self._notes = Notes(source, lambda: list(self._running.values()))
        self._completer = Completer(source)
        self._health = Health(limits.breakers)
        self._reporter = Reporter(source.report_attempts, self._health, limits.breakers)
        self._wheel = DeadlineWheel(self._time_is_over)
        sizes = {Place.LOOP: limits.slots, Place.THREAD: limits.threads, Place.PROCESS: limits.processes}
        if targets is not None:
            sizes = (sizes if tasks else {}) | {Place.CALL: limits.calls, Place.COMMAND: limits.commands}
        self._slots = Slots(sizes, lambda: self._claimer.slot_freed())
        self._meters.add_gauge("duetime_slots", lambda: self._slots.by_place(self._slots.sizes))
        self._meters.add_gauge("duetime_slots_used", lambda: self._slots.by_place(self._slots.used))
        self._executors: tuple[Executor, ...] = (  # by place
            LoopExecutor(source, self._notes, self._finished, limits.max_result, self._shall_wait),
            ThreadExecutor(limits.threads, self._notes, self._finished, limits.max_result),
            ProcessExecutor(limits.processes, self._notes, self._finished, limits.max_result, limits.max_log_lines),
        )
        if targets is not None:
            executor = TargetExecutor(targets, self._finished)
            self._executors = (*self._executors, executor, executor)
        self._claimer = source.claimer(
            Wants(
                self._slots,
                self._trials,
                {name: task.place for name, task in self._tasks.items()},
                limits.queues,
                limits.poll,
                self._start,
                lambda: self._completer.backlog,
                limits.strict,
                lambda: self._health.open_now,
            )
        )
        self._cancels = Loop("cancellations", self._look_for_cancels)
        self._loops = [*self._claimer.loops, self._cancels, Loop("notes", self._notes.tick), self._reporter.loop]

    @property
    def id(self) -> UUID | None:
        """The id of the session under way."""
        return None if self._session is None else self._session.id

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def completed(self) -> int:
        return self._completer.completed

    def stop(self) -> None:
        """Claim no more, finish what runs within the grace period. A second call stops at once."""
        if self._stopping.is_set():
            self._stop_now.set()
        self._stopping.set()

    async def run(self) -> None:
        """Run until stopped."""
        stop_listening = self._source.listen(self._hinted)
        try:
            with quick_turns() if self._source.embedded else nullcontext():
                await self._run_sessions()
        finally:
            stop_listening()
            self._claimer.close()
            self._wheel.close()
            for executor in self._executors:
                executor.close()

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
        """From a registration to its end: stopped, or the lease lost."""
        session = Session()
        self._lost.clear()
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
            # When the lease is lost nothing is waited for: the runs must stop before anyone else can start them.
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
                log.warning("cannot register: %s", error)
                await _first_of(self._stopping, timeout=backoff)
                backoff = min(5.0, backoff * 2)
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
            )
            heartbeat.start()
            log.info("%s registered: %d tasks", show("wrk", session.id), len(self._tasks))
            return heartbeat
        return None

    def _describe(self, session: Session) -> WorkerInfo:
        name = f"{socket.gethostname()}:{os.getpid()}"
        tasks = tuple(sorted(self._tasks))
        version = f"duetime {__version__}"
        return WorkerInfo(session.id, name, tasks, self._limits.queues, self._slots.total, version=version)

    async def _finish_within_grace(self) -> None:
        if self._running:
            log.info("stopping: %d runs have %s to finish", len(self._running), self._limits.grace)
        await _first_of(self._idle, self._stop_now, self._lost, timeout=self._limits.grace.total_seconds())

    async def _end_session(self, session: Session) -> None:
        """Stop what still runs; hand it back, unless the lease is lost; say goodbye."""
        reason = Stop.LEASE_LOST if self._lost.is_set() else Stop.SHUTDOWN
        unanswered = self._claimer.unanswered(session)
        left = list(self._running.values())
        for running in left:
            self._stop(running, reason)
        if left:
            await _first_of(self._idle, timeout=1.0)
        if reason is Stop.LEASE_LOST:
            return
        try:
            async with asyncio.timeout(_STOP_DEADLINE):
                await self._completer.drained()
                abandoned = [running for running in left if not running.reported]
                for running in abandoned:
                    running.reported = True
                # What shall never start twice is left for the reaper to end.
                back = [
                    (running.claimed.run_id, running.claimed.fence)
                    for running in abandoned
                    if not decode_options(running.claimed.options).at_most_once
                ]
                await self._source.release(session.id, unanswered)
                await self._source.hand_back(session.id, back)
                await self._source.leave(session.id)
        except (StoreError, TimeoutError) as error:
            log.warning("left without a word, the reaper will free %d runs: %s", len(left), error or "no answer")

    # What happens to a run.

    def _start(self, session: Session, claim_no: int, claimed: Claimed, lane: LaneKey) -> None:
        if session.over:
            return  # the answer came too late: it is released, or the reaper frees it
        if claimed.options is not None and (skipped := too_late(claimed)) is not None:
            self._tell(session, claimed, lane, claim_no, complete(claimed, skipped, None))
            return
        definition = self._tasks.get(lane.task) or self._tasks[kind_of(lane.task)]
        running = Running(claimed, definition, lane, session, claim_no, self._limits.max_log_lines)
        running.began = session.claimed_at
        if self._tracer is not None:
            running.span = self._tracer.attempt(message_of(claimed, lane), claimed.attempt)
        self._running[claimed.run_id] = running
        self._slots.free[definition.place] -= 1
        if lane.trial:
            self._trials.started(claimed.run_id, lane.trial)
        if claimed.timeout_ms is not None:
            self._wheel.add(running, session.claimed_at + claimed.timeout_ms / 1000)
        self._executors[definition.place].start(running)
        if self._idle.is_set():
            self._idle.clear()

    def _shall_wait(self, running: Running) -> bool:
        """A run that was claimed before the breaker of its target opened, and has not begun, need not find out."""
        open_now = self._health.open_now
        return bool(open_now) and target_of(running.lane, running.claimed.options) in open_now

    def _finished(self, running: Running, outcome: Outcome) -> None:
        """An attempt has really ended."""
        run_id = running.claimed.run_id
        if self._running.get(run_id) is running:
            del self._running[run_id]
        if running.bucket is not None:
            self._wheel.remove(running)
        if running.lane.trial:
            self._trials.ended(run_id)
        if running.context_if_made is not None:
            self._notes.forget(running.session.id, run_id)
        self._durations.append(monotonic() - running.began)
        if not self._running or len(self._durations) >= _COUNTED_TOGETHER:
            self._count_durations()
        if running.span is not None:
            _end_span(running.span, running, outcome)
        try:
            if not running.reported:
                self._report(running, outcome)
        finally:
            self._slots.give_back(running.definition.place)
            if not self._running:
                self._idle.set()

    def _count_durations(self) -> None:
        durations, self._durations = self._durations, []
        self._meters.run_duration.add_all(durations)

    def _report(self, running: Running, outcome: Outcome) -> None:
        """Tell the completer how the attempt ended; why it was stopped weighs more than what it did about it."""
        running.reported = True
        if running.stop is not None:
            said = self._why_stopped(running, outcome)
            if said is None:
                return
            outcome = said
        completion = complete(running.claimed, outcome, running.logs())
        target = target_of(running.lane, running.claimed.options)
        completion = self._health.weigh(target, running.claimed.attempt, outcome, completion)
        context = running.context_if_made
        apart = context is not None and isinstance(context, Context) and context.completed_in_transaction
        self._tell(running.session, running.claimed, running.lane, running.claim_no, completion, apart=apart)

    def _why_stopped(self, running: Running, outcome: Outcome) -> Outcome | None:
        """What the end of an attempt that was asked to stop comes to; None when nobody is told now."""
        match running.stop:
            case Stop.SHUTDOWN if isinstance(outcome, Succeeded) and not _may_have_noticed(running):
                return outcome
            case Stop.SHUTDOWN if decode_options(running.claimed.options).at_most_once:
                return Failed(Failure(FailureClass.LOST, "its worker was stopped, and it shall never start twice"))
            case Stop.SHUTDOWN:
                running.reported = False
                return None
            case Stop.TIMEOUT:
                return timed_out(running.claimed)
            case Stop.CANCEL:
                return Cancelled("cancelled on request")
        return None  # the lease is lost

    def _tell(
        self,
        session: Session,
        claimed: Claimed,
        lane: LaneKey,
        claim_no: int,
        completion: Completion,
        *,
        apart: bool = False,
    ) -> None:
        self._completer.add(session, completion, claim_no, apart=apart)
        if self._observe is not None:
            try:
                self._observe(lane.task, claimed, completion)
            except Exception as error:
                log.warning("nobody is told of attempts any more: %s", error)
                self._observe = None

    def _stop(self, running: Running, reason: Stop) -> None:
        if running.stop is None or reason in (Stop.LEASE_LOST, Stop.SHUTDOWN):
            running.stop = reason
            self._executors[running.definition.place].stop(running)

    def _time_is_over(self, running: Running) -> None:
        """A run has reached its timeout; a thread that goes on for a lease after it is reported as it is."""
        if running.stop is None:
            self._stop(running, Stop.TIMEOUT)
            self._wheel.add(running, monotonic() + self._limits.lease.total_seconds())
        elif not running.reported:
            self._report(running, timed_out(running.claimed))

    # What the worker is told.

    def _hinted(self, hint: Hint) -> None:
        if hint is Hint.READY:
            self._claimer.hint()
        else:
            self._cancels.wake()

    def _renewed(self, renewal: Renewal) -> None:
        self._cancel(renewal.cancelled)

    def _lease_lost(self, session: Session) -> None:
        if session is self._session:
            self._lost.set()

    async def _look_for_cancels(self) -> float:
        if self._session is not None and self._running:
            self._cancel(await self._source.cancellations(self._session.id))
            self._count_durations()
        return _CANCELS_EVERY

    def _cancel(self, run_ids: tuple[UUID, ...]) -> None:
        for run_id in run_ids:
            running = self._running.get(run_id)
            if running is not None and running.stop is None:
                log.info("%s: stopping on request", show("run", run_id))
                self._stop(running, Stop.CANCEL)


def _end_span(span: AttemptSpan, running: Running, outcome: Outcome) -> None:
    if running.stop is not None:
        span.end(running.stop.name.lower(), f"it was asked to end: {running.stop.value}")
    elif isinstance(outcome, Failed):
        span.end(outcome.failure.kind.label, outcome.failure.text.partition("\n")[0])
    else:
        span.end(None, None)


def _may_have_noticed(running: Running) -> bool:
    """Whether a function that returned may have done so because it was asked to stop, with its work half done."""
    return running.definition.place is Place.THREAD and running.definition.context_name is not None


async def _first_of(*events: asyncio.Event, timeout: float | None = None) -> None:
    """Wait until one of the events is set, or the time is over."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
