"""A duetime server as the source of a worker's runs, over HTTP: the worker's side of `docs/worker-protocol.md`.

The server claims for all workers that wait there, so claiming is a long poll. Every request of a session carries its
token. A server that does not know the session answers as for an expired lease: the worker registers again.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

import msgspec

from duetime.errors import InvalidInput, LeaseLost, NotFound, StoreRejected
from duetime.ids import parse, show
from duetime.model import json
from duetime.model.attempt import Completion, RunNote
from duetime.model.breaker import Breaker, BreakerPolicy, Tally
from duetime.model.defaults import decode_defaults
from duetime.model.dependency import Parent
from duetime.model.run import Event, RunState
from duetime.model.worker import Renewal, WorkerInfo
from duetime.store.protocol.store import Completed, Hint
from duetime.wire import workers as wire
from duetime.worker.http_claimer import HttpClaimer
from duetime.worker.http_client import Wire
from duetime.worker.session_wire import SessionWire
from duetime.worker.source import Wants
from duetime.worker.wire_logs import wire_logs

_TRACEBACK = "\nTraceback "


class HttpSource:
    embedded = False

    def __init__(self, server: Wire, sessions: SessionWire | None = None) -> None:
        self._server = server
        self._sessions = sessions or SessionWire(server)
        self._callbacks: list[Callable[[Hint], None]] = []
        self._asked_to_stop: set[UUID] = set()

    async def open(self) -> None:
        await self._server.open()

    async def close(self) -> None:
        await self._server.close()

    def companion(self) -> "HttpSource":
        server = self._server.companion()
        return HttpSource(server, self._sessions.companion(server))

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def claimer(self, wants: Wants) -> HttpClaimer:
        return HttpClaimer(self._sessions, wants, self._stop_asked)

    async def register(self, worker: WorkerInfo, lease: timedelta) -> UUID:
        body = wire.Registration(
            worker.name,
            list(worker.tasks),
            list(worker.queues),
            worker.slots,
            lease.total_seconds(),
            worker.version,
            {name: wire.TaskDefaults(**decode_defaults(defaults)) for name, defaults in worker.defaults.items()},
            {name: msgspec.Raw(schema) for name, schema in worker.schemas.items()},
        )
        answer = await self._server.call("POST", "/v1/workers", body, wire.Registered)
        worker_id = parse("wrk", answer.worker_id)
        self._sessions.began(worker_id, answer.token)
        return worker_id

    async def renew(self, worker_id: UUID, lease: timedelta, open_claims: Sequence[int], answered: int) -> Renewal:
        body = wire.Beat(list(open_claims), lease.total_seconds(), answered)
        timeout = max(1.0, lease.total_seconds() * 0.3)
        try:
            answer = await self._sessions.post(worker_id, "heartbeat", body, wire.Beaten, timeout=timeout)
        except NotFound:
            raise LeaseLost("the server no longer knows this worker") from None
        return Renewal(answer.lease_until, tuple(parse("run", run) for run in answer.cancelled), answer.freed)

    async def cancellations(self, worker_id: UUID) -> tuple[UUID, ...]:
        asked, self._asked_to_stop = self._asked_to_stop, set()
        return tuple(asked)

    async def complete(
        self, worker_id: UUID, completions: Sequence[Completion], closed_claims: Sequence[int] = ()
    ) -> Completed:
        body = wire.Reports([_report(item) for item in completions], list(closed_claims))
        return await self._notify_listeners(worker_id, "complete", body, [item.run_id for item in completions])

    async def complete_within(
        self, connection: object, worker_id: UUID, run_id: UUID, fence: int, result: bytes | None, logs: bytes | None
    ) -> None:
        raise InvalidInput(
            "a remote worker cannot complete a run inside a transaction",
            field="connection",
            remedy="start the worker with database_url instead of a server",
        )

    async def held_in_transactions(self, run_ids: Sequence[UUID]) -> frozenset[UUID]:
        return frozenset()  # a remote worker's tasks complete no run in a transaction

    async def note(self, worker_id: UUID, notes: Sequence[RunNote]) -> Completed:
        body = wire.Notes([_progress(note) for note in notes])
        return await self._notify_listeners(worker_id, "note", body, [note.run_id for note in notes])

    async def release(self, worker_id: UUID, claim_nos: Sequence[int]) -> int:
        return await self._give_back(worker_id, wire.HandBack(claims=list(claim_nos)))

    async def hand_back(self, worker_id: UUID, runs: Sequence[tuple[UUID, int]]) -> int:
        held = [wire.HeldRun(show("run", run_id), fence) for run_id, fence in runs]
        return await self._give_back(worker_id, wire.HandBack(held))

    async def unaccounted(self, worker_id: UUID, claim_nos: Sequence[int], run_ids: Sequence[UUID]) -> list[UUID]:
        body = wire.Compare(list(claim_nos), [show("run", run_id) for run_id in run_ids])
        try:
            answer = await self._sessions.post(worker_id, "compare", body, wire.Unaccounted)
        except (NotFound, LeaseLost):
            return []
        return [parse("run", run) for run in answer.runs]

    async def disown(self, worker_id: UUID, run_ids: Sequence[UUID]) -> int:
        return await self._give_back(worker_id, wire.HandBack(not_held=[show("run", run_id) for run_id in run_ids]))

    async def _give_back(self, worker_id: UUID, body: wire.HandBack) -> int:
        if not body.runs and not body.claims and not body.not_held:
            return 0
        try:
            answer = await self._sessions.post(worker_id, "hand-back", body, wire.HandedBack)
        except (NotFound, LeaseLost):
            return 0
        return answer.handed_back

    async def report_attempts(self, tallies: Sequence[Tally], policy: BreakerPolicy) -> list[Breaker]:
        return []  # the server counts the outcomes itself

    async def parents(self, worker_id: UUID, run_id: UUID) -> list[Parent]:
        found: list[Parent] = []
        more = True
        while more:
            body = wire.AskParents(show("run", run_id), show("job", found[-1].job_id) if found else None)
            try:
                answer = await self._sessions.post(worker_id, "parents", body, wire.Parents)
            except NotFound:
                raise LeaseLost("the server no longer knows this worker") from None
            found += [_parent(item) for item in answer.parents]
            more = answer.more
        return found

    async def leave(self, worker_id: UUID) -> None:
        try:
            await self._sessions.leave(worker_id)
        except (NotFound, LeaseLost):
            return

    async def _notify_listeners(
        self, worker_id: UUID, what: str, body: msgspec.Struct, run_ids: Sequence[UUID]
    ) -> Completed:
        try:
            answer = await self._sessions.post(worker_id, what, body, wire.Refusals)
        except (NotFound, LeaseLost):
            return Completed(frozenset(run_ids))
        except InvalidInput as error:
            raise StoreRejected(str(error)) from error
        return Completed(frozenset(parse("run", run) for run in answer.refused))

    def _stop_asked(self, run_ids: Sequence[UUID]) -> None:
        self._asked_to_stop.update(run_ids)
        for callback in self._callbacks:
            callback(Hint.CANCEL)


def _report(item: Completion) -> wire.Report:
    """Encode the worker's decision for the protocol."""
    report = wire.Report(show("run", item.run_id), item.fence, "SUCCEEDED")
    if item.result is not None:
        report.result = msgspec.Raw(item.result)
    if item.logs is not None:
        report.logs = wire_logs(item.logs)
    verdict = item.verdict
    match verdict.event:
        case Event.SUCCEED:
            return report
        case Event.CANCEL:
            report.state = "CANCELLED"
        case Event.SKIP:
            report.state = "SKIPPED"
        case Event.RELEASE:
            report.state = "SNOOZED"
        case _:
            report.state = "FAILED"
            report.final = verdict.event is Event.FAIL
    if verdict.delay is not None:
        report.retry_in = verdict.delay.total_seconds()
    if item.failure is not None:
        report.failure = item.failure.label  # type: ignore[assignment]
    if item.error is not None:
        report.error, _, rest = item.error.partition(_TRACEBACK)
        report.traceback = _TRACEBACK.lstrip() + rest if rest else None
    return report


def _parent(item: wire.ParentOfRun) -> Parent:
    return Parent(
        parse("job", item.job_id),
        None if item.run_id is None else parse("run", item.run_id),
        item.name,
        item.task,
        None if item.state is None else RunState[item.state],
        None if isinstance(item.result, msgspec.UnsetType) else bytes(item.result),
        item.error,
    )


def _progress(note: RunNote) -> wire.Note:
    said = wire.Note(show("run", note.run_id), note.fence, note.progress, note.message)
    if note.checkpoint is not None:
        said.checkpoint = json.decode(note.checkpoint)
    if note.logs is not None:
        said.logs = wire_logs(note.logs)
    return said
