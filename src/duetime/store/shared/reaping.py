"""Reaping: the runs of a lost worker are freed; `judge` decides what becomes of each."""

from datetime import timedelta
from typing import Any, NamedTuple

from duetime.model.suspicion import LostRun
from duetime.store.protocol.service import JudgeLost
from duetime.store.rules.lost_runs import lost_with_worker, not_held, past_timeout
from duetime.store.rules.strays import ClaimStanding
from duetime.store.shared.hand_over import Complete, reap_late
from duetime.store.shared.suspects import reassess_suspects, suspect
from duetime.store.shared.transaction import Row, RunMaker, Transaction


class Reaped(NamedTuple):
    judged: int
    freed: set[int]
    """The limits that may have room after the commit."""
    has_suspects: bool
    """Whether runs were put on trial."""


async def reap_claims(
    transaction: Transaction, run_maker: RunMaker, complete: Complete, limit: int, judge: JudgeLost, overdue: timedelta
) -> Reaped:
    # The worker's row is deleted first, so that a reaped worker can never renew.
    await transaction.execute("forget_dead_workers")
    judged, freed, has_suspects = await _reap_dead(transaction, run_maker, complete, limit, judge)
    for claim in await transaction.rows("overdue_claims", limit=limit, overdue=overdue):
        held = _runs_of(claim)
        lost = past_timeout(await transaction.rows("lost_runs", **held), overdue)
        if lost:
            freed.update(await complete(transaction, claim["worker_id"], judge(lost)))
        await transaction.execute("next_deadline", **held)
        judged += len(lost)
    late, room = await reap_late(transaction, complete, limit, judge)
    await transaction.execute("forget_cancels")
    await reassess_suspects(transaction)
    return Reaped(judged + late, freed | room, has_suspects)


async def _reap_dead(
    transaction: Transaction, run_maker: RunMaker, complete: Complete, limit: int, judge: JudgeLost
) -> Reaped:
    claims = await transaction.rows("dead_claims", limit=limit)
    if not claims:
        return Reaped(0, set(), has_suspects=False)
    lost = [await transaction.rows("lost_runs", **_runs_of(claim)) for claim in claims]
    keys = await run_maker.keys(transaction, [row["home_lane"] for rows in lost for row in rows])
    now = await transaction.now()
    losses = [
        LostRun(
            row["id"],
            claim["worker_id"],
            row["job_id"],
            keys[row["home_lane"]],
            row["lost"] + 1,
            row["started_at"],
            min(now, max(claim["heard_at"] or now, row["started_at"])),
        )
        for claim, rows in zip(claims, lost, strict=True)
        # A run that a live worker does not hold has killed no process.
        for row in (rows if claim["standing"] != ClaimStanding.NOT_HELD else ())
    ]
    lanes = await suspect(transaction, run_maker, losses)
    freed: set[int] = set()
    for claim, rows in zip(claims, lost, strict=True):
        if rows:
            found = not_held(rows) if claim["standing"] == ClaimStanding.NOT_HELD else lost_with_worker(rows)
            freed.update(await complete(transaction, claim["worker_id"], judge(found), lanes))
        # A run that is being completed was skipped: its claim stays until the completion has ended.
        if not await transaction.value("count_claimed", **_runs_of(claim)):
            await transaction.execute("delete_claim", worker_id=claim["worker_id"], claim_no=claim["claim_no"])
    return Reaped(sum(map(len, lost)), freed, bool(lanes))


def _runs_of(claim: Row) -> dict[str, Any]:
    return {"worker_id": claim["worker_id"], "claim_no": claim["claim_no"], "ids": list(claim["run_ids"])}
