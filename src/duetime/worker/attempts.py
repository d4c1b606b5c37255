"""The attempts of a worker: everything that happens to a run between its claim and what the completer is told of it."""

import logging
from asyncio import Event
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from uuid import UUID

from duetime.clock import monotonic
from duetime.errors import reason_of
from duetime.ids import show
from duetime.model.attempt import Claimed, Completion
from duetime.model.completion import PLAIN, complete, not_tried, timed_out
from duetime.model.failure import Failure, FailureClass
from duetime.model.lane import LaneKey
from duetime.model.outcome import Cancelled, Failed, Outcome, Succeeded
from duetime.model.target import kind_of
from duetime.model.target_health import Health, target_of
from duetime.model.tracing import message_of
from duetime.targets.runner import TargetRunner
from duetime.telemetry.meters import Meters
from duetime.telemetry.traces import AttemptSpan, Tracer
from duetime.worker.capacity import WorkerLimits
from duetime.worker.completer import Completer
from duetime.worker.context import Context
from duetime.worker.deadlines import DeadlineWheel
from duetime.worker.executor import Executor, LoopExecutor
from duetime.worker.failures import FailureHook, Failures
from duetime.worker.processes import ProcessExecutor
from duetime.worker.progress_reports import Notes
from duetime.worker.running_attempt import Running, Stop
from duetime.worker.session import Session
from duetime.worker.slots import Slots
from duetime.worker.source import Source
from duetime.worker.targets import TargetExecutor
from duetime.worker.task import Place, TaskDefinition, target_definition
from duetime.worker.threads import ThreadExecutor
from duetime.worker.trials import Trials

log = logging.getLogger("duetime.worker")

_COUNTED_TOGETHER = 256

Observer = Callable[[str, Claimed, Completion], None]
"""Told of every attempt that ended: its task, the claim, and what the store will be told."""


class Attempts:
    """Those of one worker, whichever session they belong to."""

    def __init__(
        self,
        source: Source,
        tasks: Mapping[str, TaskDefinition],
        limits: WorkerLimits,
        completer: Completer,
        slot_freed: Callable[[], None],
        *,
        targets: TargetRunner | None,
        observe: Observer | None,
        meters: Meters | None,
        tracer: Tracer | None,
        on_failure: Sequence[FailureHook] = (),
    ) -> None:
        self.failures = Failures(on_failure)
        self.tasks = {**tasks, **{kind: target_definition(kind) for kind in (targets.tasks if targets else ())}}
        self.trials = Trials()
        self.health = Health(limits.breakers)
        self.notes = Notes(source, self.under_way)
        self.idle = Event()
        """Set while there are none."""
        self.idle.set()
        self._limits = limits
        self._completer = completer
        self._observe = observe
        self._meters = Meters() if meters is None else meters
        self._tracer = tracer
        self._durations: list[float] = []
        """Of attempts that ended, until a few are counted together."""
        self._running: dict[UUID, Running] = {}
        self._wheel = DeadlineWheel(self._time_is_over)
        sizes = {Place.LOOP: limits.slots, Place.THREAD: limits.threads, Place.PROCESS: limits.processes}
        if targets is not None:
            sizes = (sizes if tasks else {}) | {Place.CALL: limits.calls, Place.COMMAND: limits.commands}
        self.slots = Slots(sizes, slot_freed)
        self._meters.add_gauge("duetime_slots", lambda: self.slots.by_place(self.slots.sizes))
        self._meters.add_gauge("duetime_slots_used", lambda: self.slots.by_place(self.slots.used))
        # Where a higher tier always goes first, none that came later may wait behind what was claimed before.
        ahead = self.slots.claim_ahead if not limits.strict else _nothing_ahead
        self._executors: tuple[Executor, ...] = (  # by place
            LoopExecutor(
                limits.slots,
                source,
                self.notes,
                self._finished,
                partial(ahead, Place.LOOP),
                limits.max_result,
                self._shall_wait,
            ),
            ThreadExecutor(
                limits.threads,
                self.notes,
                self._finished,
                # Beside an embedded store many threads that are never done stand in the way of the store's own one.
                partial(_nothing_ahead if source.embedded else ahead, Place.THREAD),
                limits.max_result,
            ),
            ProcessExecutor(
                limits.processes,
                self.notes,
                self._finished,
                partial(ahead, Place.PROCESS),
                limits.max_result,
                limits.max_log_lines,
            ),
        )
        if targets is not None:
            executor = TargetExecutor(targets, self._finished)
            self._executors = (*self._executors, executor, executor)

    def __len__(self) -> int:
        return len(self._running)

    def under_way(self) -> list[Running]:
        return list(self._running.values())

    def holds(self, run_id: UUID) -> bool:
        return run_id in self._running

    def held_under(self, session: Session, claim_nos: Iterable[int]) -> dict[int, list[UUID]]:
        """The runs under way of each of these claims."""
        held: dict[int, list[UUID]] = {claim_no: [] for claim_no in claim_nos}
        for run_id, running in self._running.items() if held else ():
            if running.session is session and running.claim_no in held:
                held[running.claim_no].append(run_id)
        return held

    def close(self) -> None:
        self._wheel.close()
        for executor in self._executors:
            executor.close()

    def cancel(self, run_ids: Iterable[UUID]) -> list[UUID]:
        """Ask these to end, as far as they are here; returns those that are not."""
        strangers = []
        for run_id in run_ids:
            running = self._running.get(run_id)
            if running is None:
                strangers.append(run_id)
            elif running.stop is None:
                log.info("%s: stopping on request", show("run", run_id))
                self.stop(running, Stop.CANCEL)
        return strangers

    def start(self, session: Session, claim_no: int, claimed: Claimed, lane: LaneKey) -> None:
        if session.over:
            return  # the answer came too late: it is released, or the reaper frees it
        if (outcome := not_tried(claimed)) is not None:
            completion = complete(claimed, outcome, None)
            self._tell(session, claimed, lane, claim_no, completion)
            self.failures.tell(claimed, lane, completion, outcome)
            return
        definition = self.tasks.get(lane.task) or self.tasks[kind_of(lane.task)]
        running = Running(claimed, definition, lane, session, claim_no, self._limits.max_log_lines)
        running.began = session.claimed_at
        if self._tracer is not None:
            running.span = self._tracer.attempt(message_of(claimed, lane), claimed.attempt)
        self._running[claimed.run_id] = running
        self.slots.free[definition.place] -= 1
        if lane.trial:
            self.trials.started(claimed.run_id, lane)
        if claimed.timeout_ms is not None:
            self._wheel.add(running, session.claimed_at + claimed.timeout_ms / 1000)
        self._executors[definition.place].start(running)
        if self.idle.is_set():
            self.idle.clear()

    def _shall_wait(self, running: Running) -> bool:
        """A run that was claimed before the breaker of its target opened, and has not begun, need not find out."""
        open_now = self.health.open_now
        return bool(open_now) and target_of(running.lane, running.claimed.options) in open_now

    def _finished(self, running: Running, outcome: Outcome) -> None:
        """An attempt has really ended."""
        run_id = running.claimed.run_id
        if self._running.get(run_id) is running:
            del self._running[run_id]
        if running.bucket is not None:
            self._wheel.remove(running)
        if running.lane.trial:
            self.trials.ended(run_id)
        if running.context_if_made is not None:
            self.notes.forget(running.session.id, run_id)
        self._durations.append(monotonic() - running.began)
        if not self._running or len(self._durations) >= _COUNTED_TOGETHER:
            self.count_durations()
        if running.span is not None:
            _end_span(running.span, running, outcome)
        try:
            if not running.reported:
                self._report(running, outcome)
        finally:
            self.slots.give_back(running.definition.place)
            if not self._running:
                self.idle.set()

    def count_durations(self) -> None:
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
        completion = self.health.weigh(target, running.claimed.attempt, outcome, completion)
        context = running.context_if_made
        apart = context is not None and isinstance(context, Context) and context.completed_in_transaction
        self._tell(running.session, running.claimed, running.lane, running.claim_no, completion, apart=apart)
        # One that completed itself in a transaction has failed only if that was rolled back, which the store finds out.
        if outcome is not PLAIN and not apart:
            error, running.error = running.error, None  # it refers to what refers to this attempt
            by_target = running.definition.place in (Place.CALL, Place.COMMAND)
            raised = error if running.stop is None else None
            self.failures.tell(running.claimed, running.lane, completion, outcome, error=raised, by_target=by_target)

    def _why_stopped(self, running: Running, outcome: Outcome) -> Outcome | None:
        """What the end of an attempt that was asked to stop comes to; None when nobody is told now."""
        match running.stop:
            case Stop.SHUTDOWN if isinstance(outcome, Succeeded) and not _may_have_noticed(running):
                return outcome
            case Stop.SHUTDOWN if running.may_start_again:
                running.reported = False
                return None
            case Stop.SHUTDOWN:
                return Failed(Failure(FailureClass.LOST, "its worker was stopped, and it shall never start twice"))
            case Stop.TIMEOUT if not running.begun:
                waited = monotonic() - running.began
                return Failed(Failure(FailureClass.TIMEOUT, f"it had not begun {waited:.1f} s after it was claimed"))
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
                log.warning("attempts are not reported any more: %s", reason_of(error))
                self._observe = None

    def stop(self, running: Running, reason: Stop) -> None:
        if running.stop is None or reason in (Stop.LEASE_LOST, Stop.SHUTDOWN):
            running.stop = reason
            self._executors[running.definition.place].stop(running)

    def _time_is_over(self, running: Running) -> None:
        """A run has reached its timeout; a thread that goes on for a lease after it is reported as it is. What has not
        begun has its time from when it does."""
        timeout = (running.claimed.timeout_ms or 0) / 1000
        deadline = running.counts_from() + timeout
        if running.stop is None and deadline > monotonic():
            self._wheel.add(running, deadline)
        elif running.stop is None:
            self.stop(running, Stop.TIMEOUT)
            self._wheel.add(running, monotonic() + self._limits.lease.total_seconds())
        elif not running.reported:
            self._report(running, timed_out(running.claimed))


def _nothing_ahead(place: int, count: int) -> None:
    pass


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
