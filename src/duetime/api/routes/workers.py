"""The remote worker protocol: how a worker in any language gets runs and reports outcomes.

`docs/worker-protocol.md` documents it, `wire/workers.py` declares its messages, `engine/worker_gateway.py` serves it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import timedelta
from typing import Literal
from uuid import UUID

import msgspec

from duetime.api.admission import Admission
from duetime.api.call import Call
from duetime.api.endpoint import Handler, Routes
from duetime.api.job_maker import read_defaults
from duetime.api.problems import FORBIDDEN, Problem
from duetime.api.worker_sessions import SESSION, new_token, session_of
from duetime.codec.schema_types import encode_schema
from duetime.engine.wait_queue import ClaimAnswer, WaitingClaim
from duetime.engine.worker_gateway import Reported
from duetime.errors import InvalidInput, NotFound
from duetime.ids import new_id, parse, show
from duetime.model import json
from duetime.model.access import Action
from duetime.model.attempt import AttemptState, Claimed, Completion, RunNote
from duetime.model.defaults import Defaults
from duetime.model.dependency import Parent
from duetime.model.failure import Failure, FailureClass, bounded
from duetime.model.lane import LaneKey
from duetime.model.name import check_name
from duetime.model.outcome import Cancelled, Failed, Outcome, Skipped, Snoozed
from duetime.model.retry import Verdict
from duetime.model.run import Event
from duetime.model.suspicion import TrialRoom
from duetime.model.target import check_not_reserved
from duetime.model.worker import WorkerInfo
from duetime.process.slices import MOST_SECONDS, Slices
from duetime.spec.resolved import base_of
from duetime.wire.workers import (
    LOG_LIMIT,
    Ask,
    AskParents,
    Beat,
    Beaten,
    Compare,
    Dealt,
    DealtRun,
    HandBack,
    HandedBack,
    HeldRun,
    Left,
    Logs,
    Note,
    Notes,
    ParentOfRun,
    Parents,
    Refusals,
    Registered,
    Registration,
    Report,
    Reports,
    TaskDefaults,
    Unaccounted,
)

routes = Routes("Remote workers")

_CHECKPOINT_LIMIT = 256 * 1024
_SUCCEED = Verdict(Event.SUCCEED)
_PRIORITIES: tuple[Literal["HIGH"], Literal["MEDIUM"], Literal["LOW"]] = ("HIGH", "MEDIUM", "LOW")


def _of_session(
    action: str,
    body: type,
    answer: type,
    *,
    body_limit: str = "batch",
    problems: tuple[int, ...] = (404,),
) -> Callable[[Handler], Handler]:
    """An endpoint of a worker's session. Repeating a request has no effect."""
    return routes.post(
        f"/v1/workers/{{worker_id}}/{action}",
        Action.WORK,
        **SESSION,
        body=body,
        body_limit=body_limit,
        answer=answer,
        problems=problems,
        repeats="by nature",
    )


@routes.post("/v1/workers", Action.WORK, body=Registration, body_limit="batch", answer=Registered, status=201)
async def register_worker(call: Call) -> Registered:
    """Register a worker: it gets an id and a lease"""
    body: Registration = call.body
    tasks = {_task(task, f"tasks[{index}]") for index, task in enumerate(body.tasks)}
    for field, text in (("name", body.name), ("version", body.version)):
        if not text.isprintable():
            raise InvalidInput("contains unprintable characters", field=field, remedy="printable characters only")
    lease = timedelta(seconds=body.lease) if body.lease is not None else call.service.settings.lease
    queues = _queues(call, body.queues)
    defaults = await _of_its_queues(call, {name: _defaults(name, said, tasks) for name, said in body.defaults.items()})
    schemas = await _schemas(body, defaults)
    names = tuple(sorted(tasks))
    token, token_hash = new_token()
    info = WorkerInfo(
        id=new_id(),
        name=body.name,
        tasks=names,
        queues=queues,
        slots=body.slots,
        tenant_id=call.tenant_id,
        version=body.version,
        defaults=defaults,
        schemas=schemas,
        key_id=call.who.key_id,
        token_hash=token_hash,
    )
    worker = await call.service.gateway.register(info, lease)
    seconds = lease.total_seconds()
    return Registered(
        worker_id=show("wrk", worker.id),
        token=token,
        lease=seconds,
        heartbeat=seconds / 3,
        lease_until=worker.lease_until,
    )


@_of_session("claim", Ask, Dealt, problems=(404, 409))
async def claim_runs(call: Call) -> Dealt:
    """Wait for runs and claim them; repeat with the same number if the response was lost"""
    body: Ask = call.body
    worker = session_of(call)
    room = body.room if body.claim_no else 0
    proven = {(call.tenant_id, task): count for task, count in body.proven.items()}
    trials = TrialRoom(body.suspects, body.probed, proven, body.alone)
    waiting = WaitingClaim(worker.id, body.claim_no, room, trials, body.held)
    admission = Admission(call)
    gone = asyncio.ensure_future(call.gone())
    try:
        turn = await call.service.gateway.claim(worker, body.tasks, waiting, body.wait, gone)
    finally:
        gone.cancel()
    if turn.runs or turn.cancelled:
        try:
            await admission.renew()
        except (Problem, NotFound):
            # Its key has ended while it waited: its runs are released to other workers.
            if turn.runs:
                await call.service.gateway.hand_back(worker.id, [], [body.claim_no])
            raise
    return _dealt(turn)


@_of_session("heartbeat", Beat, Beaten, problems=(404, 409))
async def heartbeat(call: Call) -> Beaten:
    """Renew the lease, and name the claims that are still held"""
    body: Beat = call.body
    lease = timedelta(seconds=body.lease) if body.lease is not None else call.service.settings.lease
    renewal = await call.service.gateway.renew(session_of(call).id, lease, body.open_claims, body.answered)
    cancelled = [show("run", run_id) for run_id in renewal.cancelled]
    return Beaten(lease_until=renewal.lease_until, cancelled=cancelled, freed=renewal.freed)


@_of_session("complete", Reports, Refusals)
async def complete_runs(call: Call) -> Refusals:
    """Report how attempts ended; a report counts only if run, fence and worker match"""
    body: Reports = call.body
    ended: list[Completion] = []
    judged: list[Reported] = []
    limit = call.service.settings.max_result
    for index, report in enumerate(body.completions):
        _read(report, f"completions[{index}]", limit, ended, judged)
    answer = await call.service.gateway.complete(session_of(call).id, ended, judged, body.closed_claims)
    return _refusals(answer.refused)


@_of_session("note", Notes, Refusals)
async def note_progress(call: Call) -> Refusals:
    """Report the progress of running attempts, and save checkpoints for the next attempt"""
    body: Notes = call.body
    notes = [_note(note, f"notes[{index}]") for index, note in enumerate(body.notes)]
    answer = await call.service.gateway.note(session_of(call).id, notes)
    return _refusals(answer.refused)


@_of_session("compare", Compare, Unaccounted)
async def compare_runs(call: Call) -> Unaccounted:
    """Reconcile claims: name the held runs, and get the other runs that the server has under these claims"""
    body: Compare = call.body
    held = [_named_run(text, f"runs[{index}]") for index, text in enumerate(body.runs)]
    found = await call.service.gateway.unaccounted(session_of(call).id, body.claims, held)
    return Unaccounted(runs=[show("run", run_id) for run_id in found])


@_of_session("hand-back", HandBack, HandedBack)
async def hand_back_runs(call: Call) -> HandedBack:
    """Release runs as if they had not been claimed"""
    body: HandBack = call.body
    runs = [(_run_id(held, f"runs[{index}].run_id"), held.fence) for index, held in enumerate(body.runs)]
    gateway, worker = call.service.gateway, session_of(call)
    not_held = [_named_run(text, f"not_held[{index}]") for index, text in enumerate(body.not_held)]
    return HandedBack(handed_back=await gateway.hand_back(worker.id, runs, body.claims, not_held))


@_of_session("parents", AskParents, Parents, body_limit="small", problems=(404, 409))
async def get_held_parents(call: Call) -> Parents:
    """List the parents of a run that the worker holds, with their results"""
    body: AskParents = call.body
    run_id = _run_id(body, "run_id")
    after = None if body.after is None else parse("job", body.after)
    found = await call.service.gateway.parents(session_of(call).id, run_id, after)
    return Parents([_parent(item) for item in found], more=bool(found))


@routes.delete("/v1/workers/{worker_id}", Action.WORK, **SESSION, answer=Left, problems=(404,))
async def delete_worker(call: Call) -> Left:
    """End the lease; other workers get the runs that are still held"""
    await call.service.gateway.leave(session_of(call).id)
    return Left()


def _queues(call: Call, wanted: Sequence[str]) -> tuple[str, ...]:
    """The queues that the worker serves: those it asks for, within those of its key."""
    names = {check_name(queue, f"queues[{index}]") for index, queue in enumerate(wanted)}
    bound = frozenset(call.who.queues)
    if not bound:
        return tuple(sorted(names))
    if beyond := sorted(names - bound):
        raise Problem(
            FORBIDDEN,
            f"this key does not serve the queue {beyond[0]!r}",
            field="queues",
            remedy=f"it serves: {', '.join(sorted(bound))}",
        )
    return tuple(sorted(names or bound))


async def _of_its_queues(call: Call, defaults: dict[str, Defaults]) -> dict[str, Defaults]:
    """The defaults that a key with queues may set: of tasks whose jobs go to its queues, before and after. Otherwise it
    could direct the jobs of other queues to its own. Other workers set the rest."""
    bound = frozenset(call.who.queues)
    if not bound or not defaults:
        return defaults
    usual = (await call.tenant()).defaults
    known = await call.service.store.queues.task_defaults(call.tenant_id)
    others = [
        each for each in await call.service.store.leases.workers(call.tenant_id) if not _is_within(each.queues, bound)
    ]
    served = {task for worker in others for task in worker.tasks}

    def is_its_own(name: str) -> bool:
        return base_of(usual, known[name]).queue in bound if name in known else name not in served

    return {name: said for name, said in defaults.items() if base_of(usual, said).queue in bound and is_its_own(name)}


async def _schemas(body: Registration, kept: Mapping[str, Defaults]) -> dict[str, bytes]:
    """The schemas of the tasks whose defaults the worker may set."""
    found = {}
    slices = Slices(MOST_SECONDS)
    for name, schema in body.schemas.items():
        await slices.yield_if_due()
        if name not in body.defaults:
            raise InvalidInput("is not among `defaults`", field=f"schemas.{name}", remedy="name it there too")
        encoded = encode_schema(schema, f"schemas.{name}")
        if name in kept:
            found[name] = encoded
    return found


def _is_within(queues: Sequence[str], bound: frozenset[str]) -> bool:
    return bool(queues) and bound.issuperset(queues)


def _dealt(turn: ClaimAnswer) -> Dealt:
    return Dealt(
        runs=[_dealt_run(lane, run) for lane, run in turn.runs],
        cancelled=[show("run", run_id) for run_id in turn.cancelled],
    )


def _dealt_run(lane: LaneKey, run: Claimed) -> DealtRun:
    return DealtRun(
        run_id=show("run", run.run_id),
        job_id=show("job", run.job_id),
        fence=run.fence,
        task=lane.task,
        queue=lane.queue,
        priority=_PRIORITIES[lane.tier],
        attempt=run.attempt,
        lost=run.lost,
        trial=lane.trial,
        due_at=run.due_at,
        ready_at=run.ready_at,
        started_at=run.started_at,
        timeout=None if run.timeout_ms is None else run.timeout_ms / 1000,
        args=msgspec.Raw(run.args),
        options=msgspec.UNSET if run.options is None else msgspec.Raw(run.options),
        checkpoint=msgspec.UNSET if run.checkpoint is None else msgspec.Raw(run.checkpoint),
    )


def _read(report: Report, field: str, limit: int, ended: list[Completion], judged: list[Reported]) -> None:
    run_id = _run_id(report, f"{field}.run_id")
    logs = _logs(report.logs, field)
    if report.state == "SUCCEEDED":
        result = None if report.result is None else json.encode(report.result, field=f"{field}.result", limit=limit)
        ended.append(Completion(run_id, report.fence, _SUCCEED, AttemptState.SUCCEEDED, result=result, logs=logs))
        return
    judged.append((run_id, report.fence, _outcome(report, field), logs))


def _outcome(report: Report, field: str) -> Outcome:
    error = bounded(report.error or "the worker gave no reason", 20_000)
    match report.state:
        case "SNOOZED":
            if report.retry_in is None:
                raise InvalidInput("is missing", field=f"{field}.retry_in", remedy="how many seconds to wait")
            return Snoozed(timedelta(seconds=report.retry_in))
        case "CANCELLED":
            return Cancelled(error)
        case "SKIPPED":
            return Skipped(error)
        case _:
            kind = FailureClass[report.failure.upper()]
            return Failed(
                Failure(kind, error, tuple(report.error_types), report.traceback, report.retry_in, report.final)
            )


def _parent(item: Parent) -> ParentOfRun:
    return ParentOfRun(
        show("job", item.job_id),
        None if item.run_id is None else show("run", item.run_id),
        item.name,
        item.task,
        None if item.state is None else item.state.name,  # type: ignore[arg-type]
        msgspec.UNSET if item.result is None else msgspec.Raw(item.result),
        item.error,
    )


def _note(note: Note, field: str) -> RunNote:
    checkpoint = None
    if note.checkpoint is not msgspec.UNSET:
        checkpoint = json.encode(note.checkpoint, field=f"{field}.checkpoint", limit=_CHECKPOINT_LIMIT)
    message = None if note.message is None else bounded(note.message, 500)
    logs = _logs(note.logs, field)
    return RunNote(_run_id(note, f"{field}.run_id"), note.fence, note.progress, message, checkpoint, logs)


def _logs(logs: Logs | None, field: str) -> bytes | None:
    if logs is None:
        return None
    # With its default values: it is stored as it is, and read by other programs.
    lines = [{"at": line.at, "level": line.level, "text": line.text} for line in logs.lines]
    return json.encode({"lines": lines, "dropped": logs.dropped}, field=f"{field}.logs", limit=LOG_LIMIT)


def _refusals(refused: frozenset[UUID]) -> Refusals:
    return Refusals(refused=sorted(show("run", run_id) for run_id in refused))


def _run_id(item: Report | Note | HeldRun | AskParents, field: str) -> UUID:
    return _named_run(item.run_id, field)


def _named_run(text: str, field: str) -> UUID:
    try:
        return parse("run", text)
    except InvalidInput as error:
        raise InvalidInput(error.message, field=field, remedy=error.remedy) from None


def _defaults(name: str, said: TaskDefaults, tasks: Set[str]) -> Defaults:
    at = f"defaults.{name}"
    if name not in tasks:
        raise InvalidInput(f"{name!r} is not one of the worker's tasks", field=at, remedy="also name it in `tasks`")
    try:
        return read_defaults(said)
    except InvalidInput as error:
        field = at if error.field is None else f"{at}.{error.field}"
        raise InvalidInput(error.message, field=field, remedy=error.remedy) from None


def _task(name: str, field: str) -> str:
    return check_not_reserved(check_name(name, field), field)
