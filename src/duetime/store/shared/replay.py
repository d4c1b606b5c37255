"""Replay: deleting jobs, trying runs again, repeating dead letters."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from msgspec.structs import asdict

from duetime.model.attempt import Run
from duetime.model.event import EventKind
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import lane_of
from duetime.model.lists import DeadFilter, Replayed, ReplayPace
from duetime.model.run import RunState
from duetime.store.protocol.store import Hint
from duetime.store.rules.caller_keys import Repeated
from duetime.store.rules.replays import Repeat, check_repeatable, deleted_meanwhile, nothing_said, repeat
from duetime.store.shared.active_tenants import check_active
from duetime.store.shared.answers import first_answer, keep_answer, keep_repeats, repeated_by
from duetime.store.shared.control import stop_job
from duetime.store.shared.events import append_events
from duetime.store.shared.reads import find_job, find_run
from duetime.store.shared.transaction import Row, Rows, SharedRole, Transaction, found


class ReplayRole(SharedRole):
    async def delete_job(self, tenant_id: int, job_id: UUID) -> None:
        async def work(transaction: Transaction) -> None:
            of_job = {"tenant_id": tenant_id, "job_id": job_id}
            await stop_job(transaction, self.run_maker, tenant_id, job_id)
            job, _ = await find_job(transaction, tenant_id, job_id)
            if job.options.key is not None:
                await transaction.execute("forget_key", **of_job, key=job.options.key)
            await transaction.execute("mark_deleted", **of_job)
            await transaction.execute("drop_labels", **of_job)
            await append_events(transaction, EventKind.DELETED, tenant_id, [job_id])

        await self.transactions.of(tenant_id).run(work)
        self.hints.give(Hint.CANCEL)

    async def retry_run(self, tenant_id: int, run_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        async def work(transaction: Transaction) -> Run:
            await check_active(transaction, tenant_id)
            made = await first_answer(transaction, tenant_id, request, UUID)
            if made is None:
                made = await self._retry(transaction, tenant_id, run_id, nonce)
                await keep_answer(transaction, tenant_id, request, made)
            return await find_run(transaction, tenant_id, made)

        run = await self.transactions.of(tenant_id).run(work)
        self.ready.announce()
        return run

    async def _retry(self, transaction: Transaction, tenant_id: int, run_id: UUID, nonce: bytes) -> UUID:
        """The run that is tried now: this one, or the one that repeats it."""
        of_run = {"tenant_id": tenant_id, "run_id": run_id}
        await transaction.lock("lock_runs", tenant_id=tenant_id, ids=[run_id])
        old = await transaction.row("lock_dead_letter", **of_run)
        if old is None:
            run = await find_run(transaction, tenant_id, run_id)
            if run.state is RunState.RETRYING:
                await transaction.execute("ready_now", **of_run)
                return run_id
            check_repeatable(run_id, run.state)
            old = found(await transaction.row("ended_run", **of_run))
        if await transaction.value("is_deleted", tenant_id=tenant_id, job_id=old["job_id"]):
            raise deleted_meanwhile(old["job_id"])
        before = await repeated_by(transaction, tenant_id, run_id)
        if before is not None:
            return before
        said = old if old["args"] is not None else await self._said(transaction, tenant_id, old["job_id"])
        lanes = await self.run_maker.awake_lanes(transaction, [said["lane_id"]])
        new = _repeat(run_id, said, lanes, await transaction.now(), nonce)
        await _replace(transaction, tenant_id, [run_id], [new])
        return new.run_id

    async def _said(self, transaction: Transaction, tenant_id: int, job_id: UUID) -> Row:
        """What an occurrence that made no run is repeated with: what its job says now."""
        row = await transaction.row("what_job_says", tenant_id=tenant_id, job_id=job_id)
        if row is None:
            raise nothing_said(job_id)
        key = lane_of(tenant_id, row["queue"], row["tier"], row["task"], row["options"])
        said = {name: row[name] for name in ("job_id", "args", "options", "timeout_ms")}
        return {**said, "lane_id": (await self.run_maker.lanes(transaction, [key]))[key]}

    async def replay_dead_letters(
        self, tenant_id: int, filter: DeadFilter, pace: ReplayPace, nonce: bytes, request: KeyedRequest | None = None
    ) -> Replayed:
        async def work(transaction: Transaction) -> Replayed:
            await check_active(transaction, tenant_id)
            answer = await first_answer(transaction, tenant_id, request, Replayed)
            if answer is not None:
                return answer
            rows = await _lock_dead(transaction, tenant_id, filter, pace.limit + 1, also_deleted=False)
            now = await transaction.now()
            old = [row["run_id"] for row in rows[: pace.limit]]
            lanes = await self.run_maker.awake_lanes(transaction, [row["lane_id"] for row in rows[: pace.limit]])
            new = [
                _repeat(row["run_id"], row, lanes, now, nonce, pace.delay + timedelta(seconds=place / pace.rate))
                for place, row in enumerate(rows[: pace.limit])
            ]
            await _replace(transaction, tenant_id, old, new)
            pairs = zip(old, [item.run_id for item in new], strict=True)
            answer = Replayed(tuple(pairs), more=len(rows) > pace.limit)
            await keep_answer(transaction, tenant_id, request, answer)
            return answer

        replayed = await self.transactions.of(tenant_id).run(work)
        self.ready.announce()
        return replayed

    async def discard_dead_letters(self, tenant_id: int, filter: DeadFilter, limit: int = 1000) -> int:
        async def work(transaction: Transaction) -> int:
            rows = await _lock_dead(transaction, tenant_id, filter, limit, also_deleted=True)
            await transaction.execute("remove_dead_letters", tenant_id=tenant_id, ids=[row["run_id"] for row in rows])
            return len(rows)

        return await self.transactions.of(tenant_id).run(work)


def _repeat(
    old: UUID, row: Row, lanes: Mapping[int, int], now: datetime, nonce: bytes, delay: timedelta = timedelta(0)
) -> Repeat:
    content = (row["args"], row["options"], row["timeout_ms"])
    return repeat(old, row["job_id"], lanes[row["lane_id"]], *content, now=now, nonce=nonce, delay=delay)


async def _replace(transaction: Transaction, tenant_id: int, old: Sequence[UUID], new: Sequence[Repeat]) -> None:
    await transaction.execute("remove_dead_letters", tenant_id=tenant_id, ids=list(old))
    await transaction.put("repeat_runs", Repeat._fields, new, tenant_id=tenant_id)
    repeated = [Repeated(each, item.run_id) for each, item in zip(old, new, strict=True)]
    await keep_repeats(transaction, tenant_id, repeated)
    await append_events(transaction, EventKind.FIRED, tenant_id, [item.run_id for item in new])


async def _lock_dead(
    transaction: Transaction, tenant_id: int, filter: DeadFilter, limit: int, *, also_deleted: bool
) -> Rows:
    wanted = {**asdict(filter), "tenant_id": tenant_id, "limit": limit, "also_deleted": also_deleted}
    return await transaction.rows("lock_dead_letters", **wanted)
