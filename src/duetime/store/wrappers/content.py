"""What a tenant's jobs hold, on its way into a store and out of it.

Content is what a job is given and what comes of it: arguments, results, errors, logs, progress messages, checkpoints.
That of a tenant that asks for it (`encrypt_args`) is sealed, each kind bound to the tenant and to its kind. What jobs
are found and planned by (names, tags, keys, queues, schedules) is not content.

What cannot be opened is missing, and nothing else is: what it belongs to is handed out with the reason, so that one row
takes no other with it. Where a process has no key, content that must be encrypted is not stored at all: an attempt ends
as it ended, and says why its result is missing.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar
from uuid import UUID

import msgspec
from msgspec import UnsetType

from duetime.clock import monotonic
from duetime.crypto.sealer import Sealer, is_sealed, is_sealed_text
from duetime.errors import InvalidInput, KeyUnknown, NoEncryptionKey, SealBroken, reason_of
from duetime.model.attempt import Attempt, AttemptState, Claimed, Completion, Run, RunNote
from duetime.model.carried import CarriedEnd, CarriedRun
from duetime.model.dependency import Parent
from duetime.model.edit import Changes
from duetime.model.fingerprint import fingerprint
from duetime.model.job import INTERNAL_TENANT, Job, NewJob
from duetime.model.lists import DeadFilter, DeadGroup, DeadLetter, RunItem
from duetime.model.notification import QUEUE as NOTIFICATIONS
from duetime.model.notification import RunNews, is_notification
from duetime.model.run import Event
from duetime.store.protocol.service import Tenants
from duetime.store.protocol.store import Claims
from duetime.store.rules.seal_owners import ARGUMENTS, CHECKPOINT, ERROR, LOGS, MESSAGE, RESULT, content_owner

log = logging.getLogger("duetime.sealing")

E = TypeVar("E", RunItem, DeadLetter, DeadGroup, RunNews)

_REMEMBERED = 3.0
"""Seconds for which a tenant is not asked again whether it wants encryption."""


class Sealing:
    """Encrypts content on its way into the roles of a store, and decrypts it on its way out."""

    def __init__(self, tenants: Tenants, claims: Claims, sealer: Sealer, *, alone: bool) -> None:
        """`alone`: no other process changes the tenants of this store."""
        self._alone = alone
        self._tenants = tenants
        self._claims = claims
        self.sealer = sealer
        self._encrypting: frozenset[int] = frozenset()
        self._asked_at: float | None = None
        self._seen: set[int] = set()
        """Tenants that were asked for before: what is known of them is at most so old."""
        self._of_lanes: dict[int, int] = {}
        self._of_workers: dict[UUID, int | None] = {}
        """The tenant of each; None for a worker that works for all."""

    # Whose content is encrypted.

    async def encrypts(self, tenant_id: int) -> bool:
        if tenant_id == INTERNAL_TENANT:
            return False
        await self.look(anew=tenant_id not in self._seen)
        self._seen.add(tenant_id)
        return tenant_id in self._encrypting

    async def check_filter(self, tenant_id: int, filter: DeadFilter) -> None:
        if filter.error is not None and await self.encrypts(tenant_id):
            raise InvalidInput(
                "the errors of this tenant are encrypted: the database cannot search in them",
                field="error",
                remedy="filter by fingerprint, failure, task or queue",
            )

    async def look(self, *, anew: bool = False) -> None:
        if self._alone and self._asked_at is not None:
            return  # also because a task that completes its run in its own transaction keeps the file locked
        if anew or self._asked_at is None or monotonic() - self._asked_at > _REMEMBERED:
            self._encrypting = await self._tenants.encrypting_tenants()
            self._asked_at = monotonic()

    async def _any(self) -> bool:
        """Whether any tenant's content is encrypted: where none is, nothing is looked at."""
        await self.look()
        return bool(self._encrypting)

    def forget(self) -> None:
        """A tenant was changed here."""
        self._asked_at = None

    def know_worker(self, worker_id: UUID, tenant_id: int | None) -> None:
        if len(self._of_workers) > 10_000:
            self._of_workers.clear()
        self._of_workers[worker_id] = tenant_id

    async def _tenants_of(self, worker_id: UUID, runs: Iterable[tuple[UUID, int]]) -> dict[UUID, int]:
        """The tenants of these (run, lane), as far as their content is encrypted."""
        pairs = list(runs)
        if not pairs or not await self._any():
            return {}
        alone = self._of_workers.get(worker_id)
        found: dict[UUID, int] = {}
        for run_id, lane_id in pairs:
            tenant_id = self._of_lanes.get(lane_id, alone)
            if tenant_id is not None:
                found[run_id] = tenant_id
        unknown = [run_id for run_id, _ in pairs if run_id not in found]
        if unknown:
            found |= await self._tenants.tenants_of_runs(unknown)
        return {run_id: tenant_id for run_id, tenant_id in found.items() if tenant_id in self._encrypting}

    # On the way in. Raises `NoEncryptionKey` where content must be encrypted and cannot: nothing is stored as it is.

    async def jobs(self, tenant_id: int, jobs: Sequence[NewJob]) -> Sequence[NewJob]:
        if not jobs:
            return jobs
        every = await self.encrypts(tenant_id)
        # Notifications contain addresses that are credentials.
        if not every and not (self.sealer.has_key and any(job.lane.queue == NOTIFICATIONS for job in jobs)):
            return jobs
        await self.sealer.ready()
        bound = content_owner(ARGUMENTS, tenant_id)
        return [
            msgspec.structs.replace(job, args=self.sealer.seal(job.args, belongs_to=bound))
            if every or is_notification(job.lane.task, job.lane.queue)
            else job
            for job in jobs
        ]

    async def changes(self, tenant_id: int, changes: Changes) -> Changes:
        if isinstance(changes.args, UnsetType) or not await self.encrypts(tenant_id):
            return changes
        await self.sealer.ready()
        args = self.sealer.seal(changes.args, belongs_to=content_owner(ARGUMENTS, tenant_id))
        return msgspec.structs.replace(changes, args=args)

    async def completions(self, worker_id: UUID, items: Sequence[Completion]) -> Sequence[Completion]:
        if not await self._any():
            return items
        tenants = await self._tenants_of(worker_id, [(item.run_id, item.lane_id) for item in items if _says(item)])
        if not tenants:
            return items
        seal = await self._completer()
        return [seal(item, tenants[item.run_id]) if item.run_id in tenants else item for item in items]

    async def judged(self, run_id: UUID) -> Callable[[Completion], Completion]:
        """What to do with the completion of a run that is judged inside a transaction."""
        tenants = await self._tenants.tenants_of_runs([run_id]) if await self._any() else {}
        tenant_id = tenants.get(run_id)
        if tenant_id not in self._encrypting:
            return lambda item: item
        seal = await self._completer()
        return lambda item: seal(item, tenant_id)

    async def notes(self, worker_id: UUID, notes: Sequence[RunNote]) -> Sequence[RunNote]:
        tenants = await self._tenants_of(worker_id, [(note.run_id, 0) for note in notes])
        if not tenants:
            return notes
        try:
            await self.sealer.ready()
        except NoEncryptionKey as error:
            log.error("progress and checkpoints of %d runs are not kept: %s", len(tenants), reason_of(error))
            return [_without_content(note) if note.run_id in tenants else note for note in notes]
        return [self._note(note, tenants[note.run_id]) if note.run_id in tenants else note for note in notes]

    async def outcome_within(
        self, worker_id: UUID, run_id: UUID, result: bytes | None, logs: bytes | None
    ) -> tuple[bytes | None, bytes | None]:
        """Raises `NoEncryptionKey`: the transaction is the task's own, and can be rolled back."""
        tenants = await self._tenants_of(worker_id, [(run_id, 0)] if result is not None or logs is not None else [])
        if run_id not in tenants:
            return result, logs
        await self.sealer.ready()
        return self._bytes(result, RESULT, tenants[run_id]), self._bytes(logs, LOGS, tenants[run_id])

    async def carried_ends(self, ended: Sequence[CarriedEnd]) -> Sequence[CarriedEnd]:
        if not await self._any():
            return ended
        if not any(_has_outcome(end) and end.run.lane.tenant_id in self._encrypting for end in ended):
            return ended
        try:
            await self.sealer.ready()
        except NoEncryptionKey as error:
            log.error("results and logs of carried runs are not kept: %s", reason_of(error))
            return [self._without(end) for end in ended]
        return [self._carried_end(end) for end in ended]

    def _carried_end(self, end: CarriedEnd) -> CarriedEnd:
        tenant_id = end.run.lane.tenant_id
        if not _has_outcome(end) or tenant_id not in self._encrypting:
            return end
        result, logs = self._bytes(end.result, RESULT, tenant_id), self._bytes(end.logs, LOGS, tenant_id)
        return msgspec.structs.replace(end, result=result, logs=logs)

    def _without(self, end: CarriedEnd) -> CarriedEnd:
        if end.run.lane.tenant_id not in self._encrypting:
            return end
        return msgspec.structs.replace(end, result=None, logs=None)

    async def _completer(self) -> Callable[[Completion, int], Completion]:
        try:
            await self.sealer.ready()
        except NoEncryptionKey as error:
            log.error("results, errors and logs are not kept: %s", reason_of(error))
            reason = f"what came of it is not kept: {error}"
            return lambda item, _: _without_outcome(item, reason)
        return self._completion

    def _completion(self, item: Completion, tenant_id: int) -> Completion:
        return msgspec.structs.replace(
            item,
            result=self._bytes(item.result, RESULT, tenant_id),
            logs=self._bytes(item.logs, LOGS, tenant_id),
            error=self._text(item.error, ERROR, tenant_id),
            fingerprint=fingerprint(item.failure, item.error) if item.verdict.event is Event.FAIL else None,
        )

    def _note(self, note: RunNote, tenant_id: int) -> RunNote:
        return msgspec.structs.replace(
            note,
            message=self._text(note.message, MESSAGE, tenant_id),
            checkpoint=self._bytes(note.checkpoint, CHECKPOINT, tenant_id),
            logs=self._bytes(note.logs, LOGS, tenant_id),
        )

    def _bytes(self, body: bytes | None, kind: str, tenant_id: int) -> bytes | None:
        return None if body is None else self.sealer.seal(body, belongs_to=content_owner(kind, tenant_id))

    def _text(self, text: str | None, kind: str, tenant_id: int) -> str | None:
        return None if text is None else self.sealer.seal_text(text, belongs_to=content_owner(kind, tenant_id))

    # On the way out.

    async def job(self, job: Job) -> Job:
        if not is_sealed(job.args):
            return job
        await self.sealer.learn([job.args])
        try:
            args = self.sealer.open(job.args, belongs_to=content_owner(ARGUMENTS, job.tenant_id))
        except SealBroken as error:
            return msgspec.structs.replace(job, args_problem=str(error))
        return msgspec.structs.replace(job, args=args)

    async def run(self, run: Run) -> Run:
        sealed = [each for each in _parts(run) if _is_content_sealed(each)]
        if not sealed:
            return run
        await self.sealer.learn(sealed)
        args, problem = run.args, None
        if is_sealed(args):
            try:
                args = self.sealer.open(args, belongs_to=content_owner(ARGUMENTS, run.tenant_id))
            except SealBroken as error:
                problem = str(error)
        result, lost = self._opened(run.result, RESULT, run.tenant_id)
        return msgspec.structs.replace(
            run,
            args=args,
            args_problem=problem,
            result=result,
            error=self._shown(run.error, ERROR, run.tenant_id) or (lost and f"its result cannot be opened: {lost}"),
            message=self._shown(run.message, MESSAGE, run.tenant_id),
            logs=self._opened(run.logs, LOGS, run.tenant_id)[0],
            attempts=tuple(self._attempt(each, run.tenant_id) for each in run.attempts),
        )

    async def runs(self, runs: Sequence[Run]) -> list[Run]:
        return [await self.run(run) for run in runs]

    async def errors(self, tenant_id: int, items: Sequence[E]) -> list[E]:
        """Things of a tenant with their errors to be read."""
        sealed = [each.error for each in items if each.error is not None and is_sealed_text(each.error)]
        if not sealed:
            return list(items)
        await self.sealer.learn(sealed)
        return [msgspec.structs.replace(each, error=self._shown(each.error, ERROR, tenant_id)) for each in items]

    async def parents(self, tenant_id: int, parents: Sequence[Parent]) -> list[Parent]:
        """Raises `SealBroken`: who asks for what a parent returned must not go on without it."""
        await self.sealer.learn(each.result for each in parents)
        bound = content_owner(RESULT, tenant_id)
        return [
            msgspec.structs.replace(
                each,
                result=self.sealer.open(each.result, belongs_to=bound)
                if each.result is not None and is_sealed(each.result)
                else each.result,
                error=self._shown(each.error, ERROR, tenant_id),
            )
            for each in parents
        ]

    async def held_parents(self, run_id: UUID, parents: Sequence[Parent]) -> Sequence[Parent]:
        """The same, for the tenant of this run."""
        if not any(_is_content_sealed(part) for each in parents for part in (each.result, each.error)):
            return parents
        tenants = await self._tenants.tenants_of_runs([run_id])
        return await self.parents(tenants[run_id], parents) if run_id in tenants else parents

    async def claimed(self, runs: list[Claimed]) -> list[Claimed]:
        if not any(_is_shut(run) for run in runs):
            return runs  # as nearly always: nothing is made anew for them
        await self.sealer.learn(part for run in runs for part in (run.args, run.checkpoint))
        return [await self._claimed(run) if _is_shut(run) else run for run in runs]

    async def dealt(self, dealt: dict[UUID, list[Claimed]]) -> dict[UUID, list[Claimed]]:
        """By worker."""
        return {worker_id: await self.claimed(runs) for worker_id, runs in dealt.items()}

    async def _claimed(self, run: Claimed) -> Claimed:
        if run.lane_id not in self._of_lanes:
            self._of_lanes = {lane.id: lane.key.tenant_id for lane in await self._claims.lanes()}
        tenant_id = self._of_lanes[run.lane_id]
        await self.encrypts(tenant_id)  # so that what comes of the run is encrypted too
        args, checkpoint = run.args, run.checkpoint
        try:
            if is_sealed(args):
                args = self.sealer.open(args, belongs_to=content_owner(ARGUMENTS, tenant_id))
            if checkpoint is not None and is_sealed(checkpoint):
                checkpoint = self.sealer.open(checkpoint, belongs_to=content_owner(CHECKPOINT, tenant_id))
        except SealBroken as error:
            return msgspec.structs.replace(run, args_problem=str(error), key_unknown=isinstance(error, KeyUnknown))
        return msgspec.structs.replace(run, args=args, checkpoint=checkpoint)

    def _attempt(self, attempt: Attempt, tenant_id: int) -> Attempt:
        return msgspec.structs.replace(
            attempt,
            error=self._shown(attempt.error, ERROR, tenant_id),
            logs=self._opened(attempt.logs, LOGS, tenant_id)[0],
        )

    def _opened(self, body: bytes | None, kind: str, tenant_id: int) -> tuple[bytes | None, str | None]:
        """The bytes, and why they are missing."""
        if body is None or not is_sealed(body):
            return body, None
        try:
            return self.sealer.open(body, belongs_to=content_owner(kind, tenant_id)), None
        except SealBroken as error:
            return None, str(error)

    def _shown(self, text: str | None, kind: str, tenant_id: int) -> str | None:
        if text is None or not is_sealed_text(text):
            return text
        try:
            return self.sealer.open_text(text, belongs_to=content_owner(kind, tenant_id))
        except SealBroken as error:
            return f"it cannot be opened: {error}"


def _has_outcome(end: CarriedEnd) -> bool:
    return end.result is not None or end.logs is not None


Opened = tuple[bytes, str | None, bool]
"""Arguments; why they cannot be decrypted here; and whether the reason is a key that is unknown here."""


async def opened_args(sealer: Sealer | None, runs: Sequence[CarriedRun]) -> dict[UUID, Opened]:
    """The arguments of those of these runs whose arguments are sealed."""
    shut = [run for run in runs if is_sealed(run.args)]
    if not shut:
        return {}
    sealer = sealer or Sealer(())
    await sealer.learn(run.args for run in shut)
    found: dict[UUID, Opened] = {}
    for run in shut:
        try:
            owner = content_owner(ARGUMENTS, run.lane.tenant_id)
            found[run.run_id] = sealer.open(run.args, belongs_to=owner), None, False
        except SealBroken as error:
            found[run.run_id] = run.args, str(error), isinstance(error, KeyUnknown)
    return found


def _says(item: Completion) -> bool:
    """Whether it holds content. What a snoozed attempt says is duetime's own: a task that snoozes gives no reason."""
    if item.attempt_state is AttemptState.SNOOZED:
        return item.logs is not None
    return item.result is not None or item.logs is not None or item.error is not None


def _without_outcome(item: Completion, reason: str) -> Completion:
    error = item.error if item.attempt_state is AttemptState.SNOOZED else reason
    return msgspec.structs.replace(item, result=None, logs=None, error=error)


def _without_content(note: RunNote) -> RunNote:
    return msgspec.structs.replace(note, message=None, checkpoint=None, logs=None)


def _parts(run: Run) -> Iterable[bytes | str | None]:
    yield from (run.args, run.result, run.error, run.message, run.logs)
    for attempt in run.attempts:
        yield from (attempt.error, attempt.logs)


def _is_content_sealed(content: bytes | str | None) -> bool:
    if content is None:
        return False
    return is_sealed_text(content) if isinstance(content, str) else is_sealed(content)


def _is_shut(run: Claimed) -> bool:
    return is_sealed(run.args) or (run.checkpoint is not None and is_sealed(run.checkpoint))
