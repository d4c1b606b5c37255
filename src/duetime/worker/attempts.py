"""The attempts of a worker: what happens to a run between its claim and its report to the completer."""

import logging
from asyncio import Event
from collections.abc import Callable, Iterable, Mapping
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
from duetime.store.rules.completions import CANCELLED_BY_REQUEST
from duetime.targets.runner import TargetRunner
from duetime.telemetry.meters import Meters
from duetime.telemetry.traces import AttemptSpan, Tracer
from duetime.worker.attempt_reports import AttemptReports
from duetime.worker.backlog import GIVEN_BACK
from duetime.worker.capacity import WorkerLimits
from duetime.worker.completer import Answered, Completer
from duetime.worker.context import Context
from duetime.worker.deadlines import DeadlineWheel
from duetime.worker.executor import Executor, LoopExecutor
from duetime.worker.hooks import Hooks
from duetime.worker.processes import ProcessExecutor
from duetime.worker.progress_reports import ProgressReports
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
"""Called for every attempt that ended, with its task, the claim and the completion."""


class Attempts:
    """The attempts of one worker, across its sessions."""

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
        hooks: Hooks,
    ) -> None:
        self.reports = AttemptReports(hooks, tasks.values())
        self.tasks = {**tasks, **{kind: target_definition(kind) for kind in (targets.tasks if targets else ())}}
        self.trials = Trials()
        self.health = Health(limits.breakers)
        self.progress_reports = ProgressReports(source, self.under_way)
        self.idle = Event()
        """Set while no attempt is in progress."""
        self.idle.set()
        self._limits = limits
        self._completer = completer
        self._observe = observe
        self._meters = Meters() if meters is None else meters
        self._tracer = tracer
        self._durations: list[float] = []
        """Durations of ended attempts, recorded a few at a time."""
        self._running: dict[UUID, Running] = {}
        self._wheel = DeadlineWheel(self._time_is_over)
        sizes = {Place.LOOP: limits.slots, Place.THREAD: limits.threads, Place.PROCESS: limits.processes}
        if targets is not None:
            own = {Place.CALL: limits.calls, Place.COMMAND: limits.commands, Place.CLUSTER: limits.cluster_jobs}
            sizes = (sizes if tasks else {}) | own
        self.slots = Slots(sizes, slot_freed)
        self._meters.add_gauge("duetime_slots", lambda: self.slots.by_place(self.slots.sizes))
        self._meters.add_gauge("duetime_slots_used", lambda: self.slots.by_place(self.slots.used))
        # With strict tiers, a later run of a higher tier must not wait behind runs claimed ahead.
        ahead = self.slots.claim_ahead if not limits.strict else _nothing_ahead
        self._executors: tuple[Executor, ...] = (  # indexed by place
            LoopExecutor(
                limits.slots,
                source,
                self.progress_reports,
                self._finished,
                partial(ahead, Place.LOOP),
                limits.max_result,
                self._must_wait,
            ),
            ThreadExecutor(
                limits.threads,
                self.progress_reports,
                self._finished,
                partial(ahead, Place.THREAD),
                limits.max_result,
            ),
            ProcessExecutor(
                limits.processes,
                self.progress_reports,
                self._finished,
                partial(ahead, Place.PROCESS),
                limits.max_result,
                limits.max_log_lines,
            ),
        )
        if targets is not None:
            executor = TargetExecutor(targets, self._finished)
            self._executors = (*self._executors, executor, executor, executor)

    def __len__(self) -> int:
        return len(self._running)

    def under_way(self) -> list[Running]:
        return list(self._running.values())

    def holds(self, run_id: UUID) -> bool:
        return run_id in self._running

    def held_under(self, session: Session, claim_nos: Iterable[int]) -> dict[int, list[UUID]]:
        """The runs in progress of each of these claims."""
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
        """Ask these runs to stop; returns those that this worker does not hold."""
        strangers = []
        for run_id in run_ids:
            running = self._running.get(run_id)
            if running is None:
                strangers.append(run_id)
            elif running.stop is None:
                log.info("%s: stopping on request", show("run", run_id))
                self.stop(running, Stop.CANCEL)
        return strangers

    def abandon(self, run_ids: Iterable[UUID]) -> None:
        """Stop these runs, and report nothing about them: another worker may get them."""
        for run_id in run_ids:
            running = self._running.get(run_id)
            if running is not None:
                self.stop(running, Stop.LEASE_LOST)

    def start(self, session: Session, claim_no: int, claimed: Claimed, lane: LaneKey) -> None:
        if session.over:
            return  # the answer came too late: the claim is released, or the reaper frees the run
        if (outcome := not_tried(claimed)) is not None:
            completion = complete(claimed, outcome, None)
            self._complete(session, claimed, lane, claim_no, completion)
            self.reports.report(claimed, lane, completion, outcome, self.tasks.get(lane.task))
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

    def _must_wait(self, running: Running) -> bool:
        """Whether to postpone a run that was claimed before its target's breaker opened and has not started."""
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
            self.progress_reports.forget(running.session.id, run_id)
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
        """Report the attempt's outcome to the completer. The reason for a stop takes precedence over the function's own
        outcome."""
        running.reported = True
        if running.stop is not None:
            said = self._why_stopped(running, outcome)
            if said is None:
                return
            outcome = said
        elif not running.begun and outcome == GIVEN_BACK:
            # Not a snooze: after one, a run has started and does not expire any more.
            self._completer.give_back(running.session, running.claimed.run_id, running.claimed.fence, running.claim_no)
            return
        completion = complete(running.claimed, outcome, running.logs())
        target = target_of(running.lane, running.claimed.options)
        completion = self.health.weigh(target, running.claimed.attempt, outcome, completion)
        context = running.context_if_made
        if isinstance(context, Context) and context.completed_in_transaction:
            # It has failed only if the transaction was rolled back. The store checks that.
            unless = partial(self._answered, running, completion, outcome, context.stored_result)
            self._complete(running.session, running.claimed, running.lane, running.claim_no, completion, apart=unless)
            return
        self._complete(running.session, running.claimed, running.lane, running.claim_no, completion)
        if outcome is not PLAIN or self.reports.of_successes:
            error, running.error = running.error, None  # break the reference cycle between the error and this attempt
            by_target = running.definition.place >= Place.CALL
            self.reports.report(
                running.claimed,
                running.lane,
                completion,
                outcome,
                running.definition,
                error=error if running.stop is None else None,
                by_target=by_target,
            )

    def _answered(
        self, running: Running, completion: Completion, outcome: Outcome, result: bytes | None, committed: bool
    ) -> None:
        """The store has answered whether the transaction was committed in which a task completed its run."""
        claimed, lane, definition = running.claimed, running.lane, running.definition
        error, running.error = running.error, None
        if committed and error is not None:
            message = "%s of %s raised after it had completed its run in a transaction: the run has succeeded"
            log.warning(message, show("run", claimed.run_id), definition.name, exc_info=error)
        if not committed:
            self.reports.report(claimed, lane, completion, outcome, definition)
        elif self.reports.of_successes:
            self.reports.succeeded(claimed, lane, result, definition)

    def _why_stopped(self, running: Running, outcome: Outcome) -> Outcome | None:
        """The outcome of an attempt that was asked to stop; None when nothing is reported now."""
        match running.stop:
            case Stop.SHUTDOWN if isinstance(outcome, Succeeded) and not _may_have_noticed(running):
                return outcome
            case Stop.SHUTDOWN if running.may_start_again:
                running.reported = False
                return None
            case Stop.SHUTDOWN:
                return Failed(Failure(FailureClass.LOST, "its worker was stopped; the job runs at most once"))
            case Stop.TIMEOUT if not running.begun:
                waited = monotonic() - running.began
                return Failed(Failure(FailureClass.TIMEOUT, f"it had not started {waited:.1f} s after it was claimed"))
            case Stop.TIMEOUT:
                return timed_out(running.claimed)
            case Stop.CANCEL:
                return Cancelled(CANCELLED_BY_REQUEST)
        return None  # the lease is lost

    def _complete(
        self,
        session: Session,
        claimed: Claimed,
        lane: LaneKey,
        claim_no: int,
        completion: Completion,
        *,
        apart: Answered | None = None,
    ) -> None:
        self._completer.add(session, completion, claim_no, apart=apart)
        if self._observe is not None:
            try:
                self._observe(lane.task, claimed, completion)
            except Exception as error:
                log.warning("the attempt observer failed and is disabled: %s", reason_of(error))
                self._observe = None

    def stop(self, running: Running, reason: Stop) -> None:
        if running.stop is None or reason in (Stop.LEASE_LOST, Stop.SHUTDOWN):
            running.stop = reason
            self._executors[running.definition.place].stop(running)

    def _time_is_over(self, running: Running) -> None:
        """A run has reached its timeout. A thread that goes on for one more lease is reported as timed out. The timeout
        of a run that has not started counts from its start."""
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
        span.end(running.stop.name.lower(), f"stopped: {running.stop.value}")
    elif isinstance(outcome, Failed):
        span.end(outcome.failure.kind.label, outcome.failure.text.partition("\n")[0])
    else:
        span.end(None, None)


def _may_have_noticed(running: Running) -> bool:
    """Whether a function that returned may have done so because it was asked to stop, with its work incomplete."""
    return running.definition.place is Place.THREAD and running.definition.context_name is not None
