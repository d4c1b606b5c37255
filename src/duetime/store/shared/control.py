"""Control: what people ask for while jobs are on their way."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from duetime.ids import once_run_id
from duetime.model.attempt import Completion, Run
from duetime.model.event import EventKind
from duetime.model.firing import Backfill
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import Job, JobState, lane_of
from duetime.model.lane import LaneKey
from duetime.model.run import Event
from duetime.store.protocol.store import Hint
from duetime.store.rules.completions import CANCELLED_BY_REQUEST, REPLACED, as_replaced
from duetime.store.rules.job_control import backfilled, cursor_after_pause, manual_run
from duetime.store.shared.active_tenants import check_active
from duetime.store.shared.answers import first_answer, keep_answer
from duetime.store.shared.edits import steerable
from duetime.store.shared.events import append_events
from duetime.store.shared.pausing import withdraw_unstarted
from duetime.store.shared.reads import find_job, find_run
from duetime.store.shared.suspects import put_on_trial
from duetime.store.shared.transaction import NewRun, Row, RunMaker, SharedRole, Transaction


class ControlRole(SharedRole):
    async def cancel_job(self, tenant_id: int, job_id: UUID) -> Job:
        async def work(transaction: Transaction) -> Job:
            await stop_job(transaction, self.run_maker, tenant_id, job_id)
            job, _ = await find_job(transaction, tenant_id, job_id)
            await append_events(transaction, EventKind.CHANGED, tenant_id, [job_id])
            return job

        job = await self.transactions.of(tenant_id).run(work)
        self.hints.give(Hint.CANCEL)
        return job

    async def cancel_run(self, tenant_id: int, run_id: UUID) -> Run:
        async def work(transaction: Transaction) -> Run:
            await stop_runs(transaction, tenant_id, [run_id])
            return await find_run(transaction, tenant_id, run_id)

        run = await self.transactions.of(tenant_id).run(work)
        self.hints.give(Hint.CANCEL)
        return run

    async def pause_job(self, tenant_id: int, job_id: UUID) -> Job:
        async def work(transaction: Transaction) -> Job:
            row = await steerable(transaction, tenant_id, job_id)
            if row["state"] == JobState.ACTIVE:
                await withdraw_unstarted(transaction, self.run_maker, tenant_id, job_id, row)
                await _set_state(transaction, tenant_id, job_id, JobState.PAUSED)
            return (await find_job(transaction, tenant_id, job_id))[0]

        return await self.transactions.of(tenant_id).run(work)

    async def resume_job(self, tenant_id: int, job_id: UUID) -> Job:
        async def work(transaction: Transaction) -> Job:
            row = await steerable(transaction, tenant_id, job_id)
            if row["state"] == JobState.PAUSED:
                await _resume(transaction, tenant_id, job_id, row)
                await _set_state(transaction, tenant_id, job_id, JobState.ACTIVE)
            return (await find_job(transaction, tenant_id, job_id))[0]

        return await self.transactions.of(tenant_id).run(work)

    async def trigger_job(self, tenant_id: int, job_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        async def work(transaction: Transaction) -> Run:
            await check_active(transaction, tenant_id)
            made = await first_answer(transaction, tenant_id, request, UUID)
            if made is None:
                row = await steerable(transaction, tenant_id, job_id)
                run = manual_run(job_id, await transaction.now(), nonce)
                made = run.run_id
                await self._make_runs(transaction, tenant_id, job_id, row, [(made, run.due_at, run.due_at)])
                await keep_answer(transaction, tenant_id, request, made)
            return await find_run(transaction, tenant_id, made)

        run = await self.transactions.of(tenant_id).run(work)
        self.ready.announce()
        return run

    async def backfill_job(
        self, tenant_id: int, job_id: UUID, backfill: Backfill, nonce: bytes, request: KeyedRequest | None = None
    ) -> int:
        async def work(transaction: Transaction) -> int:
            await check_active(transaction, tenant_id)
            count = await first_answer(transaction, tenant_id, request, int)
            if count is None:
                row = await steerable(transaction, tenant_id, job_id)
                now = await transaction.now()
                runs = await transaction.compute(backfilled, job_id, backfill, now, nonce)  # up to 10,000
                await self._make_runs(transaction, tenant_id, job_id, row, runs)
                count = len(runs)
                await keep_answer(transaction, tenant_id, request, count)
            return count

        count = await self.transactions.of(tenant_id).run(work)
        self.ready.announce()
        return count

    async def _make_runs(
        self,
        transaction: Transaction,
        tenant_id: int,
        job_id: UUID,
        row: Row,
        runs: Sequence[tuple[UUID, datetime, datetime]],
    ) -> None:
        key = lane_of(tenant_id, row["queue"], row["tier"], row["task"], row["options"])
        lane_id = (await self.run_maker.lanes(transaction, [key]))[key]
        made = [NewRun(tenant_id, job_id, run_id, lane_id, due_at, ready_at) for run_id, due_at, ready_at in runs]
        await self.run_maker.make(transaction, made)
        await put_on_trial(transaction, [job_id])


async def _resume(transaction: Transaction, tenant_id: int, job_id: UUID, row: Row) -> None:
    """Bring the cursor back into view."""
    newest: list[UUID] = []
    if row["next_fire_at"] is None:
        of_job = {"tenant_id": tenant_id, "job_id": job_id}
        newest += [run["run_id"] for run in await transaction.rows("ended_runs_of_job", **of_job, limit=1)]
        newest += [run["id"] for run in await transaction.rows("see_live_runs", **of_job)]
    cursor = cursor_after_pause(row, newest, await transaction.now())
    if cursor is not None:
        place = {"scan_at": cursor.scan_at, "next_fire_at": cursor.next_fire_at, "exact": cursor.exact}
        await transaction.execute("put_cursor", job_id=job_id, **place)


async def _set_state(transaction: Transaction, tenant_id: int, job_id: UUID, state: JobState) -> None:
    await transaction.execute("set_job_state", tenant_id=tenant_id, job_id=job_id, state=state)
    await append_events(transaction, EventKind.CHANGED, tenant_id, [job_id])


async def stop_job(transaction: Transaction, run_maker: RunMaker, tenant_id: int, job_id: UUID) -> None:
    """No further run: end what waits, and ask what runs to stop."""
    of_job = {"tenant_id": tenant_id, "job_id": job_id}
    # The cursor first: a scanner that is firing this job finishes before we look where the row lives.
    await transaction.lock("lock_cursor", job_id=job_id)
    row = await transaction.row("lock_job", **of_job)
    if row is not None and not row["recurring"]:
        await _cancel_once(transaction, run_maker, tenant_id, job_id, row)
    elif row is not None and row["state"] < JobState.ENDED:
        await transaction.execute("cancel_recurring", **of_job)
        await transaction.execute("drop_cursor", job_id=job_id)
    runs = await transaction.rows("lock_live_runs", **of_job)
    await stop_runs(transaction, tenant_id, [run["id"] for run in runs])


async def _cancel_once(transaction: Transaction, run_maker: RunMaker, tenant_id: int, job_id: UUID, row: Row) -> None:
    """End a one-off job that has not fired, as its cancelled run."""
    of_job = {"tenant_id": tenant_id, "job_id": job_id}
    key = LaneKey(tenant_id, row["queue"], row["tier"], row["task"])
    lane_id = (await run_maker.lanes(transaction, [key]))[key]
    due_at = row["next_fire_at"] or row["created_at"]
    run_id = once_run_id(job_id, due_at)
    end = {"lane_id": lane_id, "due_at": due_at, "error": CANCELLED_BY_REQUEST}
    await transaction.execute("keep_cancelled_once", **of_job, run_id=run_id, **end)
    await transaction.execute("note_cancelled_once", **of_job, run_id=run_id)
    await transaction.execute("drop_cursor", job_id=job_id)
    await transaction.execute("drop_job", **of_job)
    await append_events(transaction, EventKind.CANCELLED, tenant_id, [run_id])


async def stop_runs(
    transaction: Transaction, tenant_id: int, run_ids: Sequence[UUID], reason: str = CANCELLED_BY_REQUEST
) -> None:
    """End the runs that wait, and ask the others to stop."""
    if run_ids:
        these = {"tenant_id": tenant_id, "ids": list(run_ids)}
        # Held first, in the order in which everybody does, so that a run cannot come to wait between the look at the
        # waiting ones and at the others.
        await transaction.lock("lock_runs", **these)
        await transaction.execute("cancel_waiting", **these, error=reason)
        await transaction.execute("ask_to_stop", **these, replaced=reason == REPLACED)


async def cancel_waiting(transaction: Transaction, tenant_id: int, run_id: UUID) -> None:
    """End a run that waits again, and was asked to stop."""
    reason = REPLACED if await replaced_runs(transaction, [run_id]) else CANCELLED_BY_REQUEST
    await transaction.execute("cancel_waiting", tenant_id=tenant_id, ids=[run_id], error=reason)


async def replaced_runs(transaction: Transaction, run_ids: Sequence[UUID]) -> frozenset[UUID]:
    """Those of these runs that were asked to stop for a later occurrence."""
    rows = await transaction.rows("replaced_runs", ids=list(run_ids)) if run_ids else ()
    return frozenset(row["run_id"] for row in rows)


async def say_replaced(transaction: Transaction, completions: Sequence[Completion]) -> Sequence[Completion]:
    """These completions, with the reason of those whose runs stopped for a later occurrence. Only the store knows it:
    a worker is asked to stop, and not told why."""
    stopped = [item.run_id for item in completions if item.verdict.event is Event.CANCEL]
    replaced = await replaced_runs(transaction, stopped)
    return [as_replaced(item) if item.run_id in replaced else item for item in completions] if replaced else completions
