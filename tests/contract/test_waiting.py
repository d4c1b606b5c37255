"""Why runs and jobs wait: each reason comes about by the mechanism that it names."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec

from duetime.model.breaker import BreakerPolicy, Tally
from duetime.model.dependency import DependsOn
from duetime.model.job import NewJob, Options, Submitted, encode_options
from duetime.model.lane import Tier
from duetime.model.limits import QueueLimits, parse_rate
from duetime.model.schedule import Every, Once, make_after
from duetime.model.scope import Scope
from duetime.model.tenant import NewTenant, TenantChange, TenantLimits, TenantState
from duetime.model.waiting import Reason, why_job_waits, why_run_waits
from duetime.model.worker import WorkerInfo
from duetime.store.protocol.store import Store
from duetime.store.wrappers.scoped import within
from tests.contract.hands import STRANGER, TENANT, Hand, fire, hand, job, reap, submit
from tests.contract.worlds import Time

HOUR = timedelta(hours=1)


async def why(store: Store, run_id: UUID | None, tenant_id: int = TENANT) -> list[Reason]:
    assert run_id is not None
    facts = await store.waiting.run_facts(tenant_id, run_id)
    if facts is None:
        return []
    run = await store.reads.run(tenant_id, run_id)
    return why_run_waits(facts, run.attempts[-1] if run.attempts else None, run.message)


async def first(store: Store, made: Submitted) -> Reason:
    return (await why(store, made.run_id))[0]


async def codes(store: Store, made: Submitted) -> list[str]:
    return [each.code for each in await why(store, made.run_id)]


def of(job_options: dict[str, Any], **more: Any) -> NewJob:
    return job(options=encode_options(Options(**job_options)), **more)


async def test_a_run_that_runs_or_is_over_has_no_reasons(store: Store) -> None:
    worker = await hand(store)
    made = await submit(store, job())
    run = await worker.claim_one()
    assert await codes(store, made) == []
    await worker.succeed(run)
    assert await codes(store, made) == []


async def test_nothing_holds_it(store: Store, time: Time) -> None:
    await hand(store, HOUR)
    made = await submit(store, job())
    assert (await first(store, made)).text == "Nothing holds it: a worker takes it in a moment."
    time.advance(seconds=65)
    found = await first(store, made)
    assert found.code == "ready" and "ready for 65 s" in found.text and found.fix


async def test_it_is_due_later(store: Store, time: Time) -> None:
    made = await submit(store, job(Once(delay=timedelta(seconds=10))))
    found = await first(store, made)
    assert (found.code, found.text, found.until) == ("not_due", "It is due in 10 s.", made.next_run)


async def test_no_live_worker_has_the_task(store: Store, time: Time) -> None:
    made = await submit(store, job(task="billing.refund"))
    found = await first(store, made)
    assert found.text == "No live worker has billing.refund, and none had it within a day." and found.fix
    await hand(store)
    assert await codes(store, made) == ["no_worker"], "that worker has other tasks"
    gone = WorkerInfo(Hand(store).id, "w7", ("billing.refund",), (), 1)
    await store.leases.register(gone, HOUR)
    assert await codes(store, made) == ["ready"]
    await store.leases.leave(gone.id)
    time.advance(minutes=12)
    assert (await first(store, made)).text == "No live worker has billing.refund; the last one, w7, left 12 min ago."
    lost = msgspec.structs.replace(gone, id=Hand(store).id, name="w8")
    await store.leases.register(lost, timedelta(seconds=5))
    time.advance(seconds=6)
    assert await codes(store, made) == ["no_worker"], "its lease is over"
    await reap(store)
    assert (await first(store, made)).text.endswith("; the last one, w8, was lost 0.0 s ago.")


async def test_no_worker_serves_its_queue(store: Store) -> None:
    await hand(store)
    made = await submit(store, job(queue="mail"))
    found = await first(store, made)
    assert found.code == "no_worker_for_queue" and "mail" in found.text


async def test_a_target_needs_a_worker_for_its_kind(store: Store) -> None:
    made = await submit(store, job(task="duetime.http/example.com"))
    assert await codes(store, made) == ["no_worker"]
    await store.leases.register(WorkerInfo(Hand(store).id, "w", ("duetime.http",), (), 1), HOUR)
    assert await codes(store, made) == ["ready"]


async def test_its_queue_is_paused(store: Store, time: Time) -> None:
    await hand(store, HOUR)
    made = await submit(store, job())
    await store.queues.pause_queue(TENANT, "default")
    time.advance(minutes=3)
    found = await first(store, made)
    assert (found.code, found.text) == ("queue_paused", "The queue default has been paused for 3 min.")
    later = await submit(store, job(Once(delay=timedelta(seconds=10))))
    assert await codes(store, later) == ["not_due", "queue_paused"]


async def test_its_tenant_is_suspended(store: Store) -> None:
    acme = (await store.tenants.create_tenant(NewTenant("acme"))).id
    await hand(store)
    made = await submit(store, job(tenant_id=acme), tenant_id=acme)
    recurring = await submit(store, job(Every(HOUR), tenant_id=acme), tenant_id=acme)
    await store.tenants.update_tenant(acme, TenantChange(state=TenantState.SUSPENDED))
    assert [each.code for each in await why(store, made.run_id, acme)] == ["tenant_suspended"]
    facts = await store.waiting.job_facts(acme, recurring.job_id)
    assert facts is not None and "tenant_suspended" in [each.code for each in why_job_waits(facts)]


async def test_limits_of_its_queue_and_tenant(store: Store, time: Time) -> None:
    worker = await hand(store, HOUR)
    await store.queues.limit_queue(TENANT, "default", QueueLimits(1, parse_rate("1/m")))
    await store.tenants.update_tenant(TENANT, TenantChange(limits=TenantLimits(running_runs=1)))
    await submit(store, job())
    run = await worker.claim_one()
    made = await submit(store, job())
    full, used, tenant = sorted(await why(store, made.run_id), key=lambda each: each.code)
    assert (full.code, full.text) == ("queue_limit", "The queue default runs as many runs as it may: 1 of 1.")
    assert full.run_ids == (run.run_id,) and full.fix and "duetime queues limit default" in full.fix
    assert used.code == "queue_rate" and used.until is not None and "(1/m)" in used.text
    assert timedelta(seconds=55) < used.until - time.now <= timedelta(seconds=61)
    assert (tenant.code, tenant.run_ids) == ("tenant_limit", (run.run_id,))
    await worker.succeed(run)
    assert await codes(store, made) == ["queue_rate"]
    time.advance(seconds=62)
    assert await codes(store, made) == ["ready"]


async def test_its_key_is_held(store: Store) -> None:
    worker = await hand(store)
    await submit(store, of({"concurrency_key": "k"}))
    run = await worker.claim_one()
    made = await submit(store, of({"concurrency_key": "k"}))
    assert await worker.claim() == []
    found = await first(store, made)
    assert (found.code, found.run_ids) == ("key_limit", (run.run_id,))
    assert found.text == "Its concurrency key 'k' is in use: 1 of 1 runs hold it."


async def test_the_rate_of_its_key_is_used_up(store: Store, time: Time) -> None:
    worker = await hand(store)
    for _ in range(3):
        made = await submit(store, of({"rate_key": "k", "rate": "1/m"}))
        await worker.claim()
        time.advance(seconds=1)
    found = await first(store, made)
    run = await store.reads.run(TENANT, made.run_id or UUID(int=0))
    assert (found.code, found.until) == ("rate_limit", run.ready_at)
    assert "'k' (1/m) is used up; it has the slot in 1" in found.text


async def test_its_breaker_is_open(store: Store, time: Time) -> None:
    worker = await hand(store, HOUR)
    plain, keyed = await submit(store, job()), await submit(store, of({"breaker_key": "greet"}))
    await store.breakers.report_attempts([Tally(TENANT, "greet", 20, 20)], BreakerPolicy())
    await store.claims.rules()
    assert await worker.claim() == []
    for made in (plain, keyed):
        found = await first(store, made)
        assert found.code == "breaker" and "greet" in found.text and found.fix


async def test_another_run_of_its_job_is_ahead(store: Store, time: Time) -> None:
    worker = await hand(store, HOUR)
    every = await submit(store, of({"overlap": "queue"}, schedule=Every(timedelta(minutes=1))))
    time.advance(seconds=60)
    await fire(store)
    run = await worker.claim_one()
    time.advance(seconds=60)
    await fire(store)
    waiting = await store.waiting.waiting_run_of_job(TENANT, every.job_id)
    found = (await why(store, waiting))[0]
    assert (found.code, found.run_ids) == ("overlap", (run.run_id,))


async def test_its_parents_have_not_ended(store: Store) -> None:
    one, two = await submit(store, job()), await submit(store, job())
    child = msgspec.structs.replace(job(), depends_on=DependsOn((one.job_id, two.job_id)))
    await submit(store, child)
    waiting = await store.waiting.waiting_run_of_job(TENANT, child.id)
    (found,) = await why(store, waiting)
    assert (found.code, set(found.job_ids)) == ("parents", {one.job_id, two.job_id})
    assert found.text == "It depends on 2 jobs that have not ended."
    worker = await hand(store)
    for run in await worker.claim():
        if run.job_id == one.job_id:
            await worker.succeed(run)
    while await store.graphs.settle(100):
        pass
    (found,) = await why(store, waiting)
    assert (found.job_ids, found.text) == ((two.job_id,), "It depends on a job that has not ended.")


async def test_it_waits_for_its_retry(store: Store, time: Time) -> None:
    worker = await hand(store, HOUR)
    made = await submit(store, job())
    await worker.retry(await worker.claim_one(), 300)
    found = await first(store, made)
    assert found.code == "retry_delay" and found.fix and found.until == time.now + timedelta(seconds=300)
    assert found.text == "Attempt 1 failed: ValueError: not yet. The next attempt is in 5 min."
    time.advance(seconds=300)
    await worker.snooze(await worker.claim_one(), 60)
    assert (await first(store, made)).code == "snoozed"


async def test_it_is_tried_with_care(store: Store, time: Time) -> None:
    made = await submit(store, job())
    for _ in range(3):
        worker = await hand(store, timedelta(seconds=10))
        await worker.claim()
        time.advance(seconds=70)
        await reap(store)
    await hand(store, HOUR)
    found = (await why(store, made.run_id))[0]
    assert found.code == "trial" and "does nothing else" in found.text


async def test_other_runs_go_first_and_slots_are_in_use(store: Store, time: Time) -> None:
    worker = await hand(store, HOUR)
    await submit(store, *(job() for _ in range(10)))
    await worker.claim()
    time.advance(seconds=1)
    await submit(store, job(), job(tier=Tier.HIGH), job(tier=Tier.HIGH, task="count"), job(tier=Tier.LOW))
    time.advance(seconds=1)
    made = await submit(store, job())
    await submit(store, job(tenant_id=STRANGER, tier=Tier.HIGH), tenant_id=STRANGER)
    full, behind = await why(store, made.run_id)
    assert (full.code, full.text) == ("workers_full", "All 10 slots of the live worker with greet are in use.")
    assert behind.text == (
        "Other runs of the queue default go first: 2 with a higher priority and 1 that became ready before it."
    )


async def test_why_a_job_has_no_run(store: Store, time: Time) -> None:
    every = await submit(store, job(Every(HOUR)))

    async def reasons(job_id: UUID) -> list[str]:
        facts = await store.waiting.job_facts(TENANT, job_id)
        return [] if facts is None else [each.code for each in why_job_waits(facts)]

    assert await store.waiting.waiting_run_of_job(TENANT, every.job_id) is None
    assert await reasons(every.job_id) == ["not_due"]
    await store.control.pause_job(TENANT, every.job_id)
    assert await reasons(every.job_id) == ["job_paused"]
    follower = await submit(store, job(make_after(every.job_id, "success")))
    facts = await store.waiting.job_facts(TENANT, follower.job_id)
    assert facts is not None and why_job_waits(facts)[0].job_ids == (every.job_id,)
    await store.control.resume_job(TENANT, every.job_id)
    time.advance(hours=2)
    assert await reasons(every.job_id) == ["firing"]
    await store.control.cancel_job(TENANT, every.job_id)
    assert await reasons(every.job_id) == []
    assert await store.waiting.job_facts(STRANGER, follower.job_id) is None


async def test_another_tenant_learns_nothing(store: Store) -> None:
    made = await submit(store, job())
    assert made.run_id is not None
    assert await store.waiting.run_facts(STRANGER, made.run_id) is None
    assert await store.waiting.waiting_run_of_job(STRANGER, made.job_id) is None


async def test_a_scope_hides_what_belongs_to_others(store: Store, time: Time) -> None:
    worker = await hand(store, HOUR)
    await store.queues.limit_queue(TENANT, "default", QueueLimits(3, None))
    theirs = await submit(store, of({"owner": "ann", "concurrency_key": "k"}))
    mine = await submit(store, of({"owner": "bob", "concurrency_key": "m"}))
    await submit(store, of({"owner": "ann"}))
    await worker.claim()
    await submit(store, of({"owner": "ann"}, tier=Tier.HIGH))
    time.advance(seconds=1)
    waits = await submit(store, of({"owner": "bob"}))
    bob = within(store, Scope(owner="bob"))
    seen = await why(bob, waits.run_id)
    assert [each.code for each in seen] == ["queue_limit", "behind"]
    assert seen[0].run_ids == (mine.run_id,), "its own run, and not the other"
    words = " ".join(f"{each.text} {each.fix}" for each in seen)
    assert not any(character.isdigit() for character in words), words
    assert str(theirs.run_id) not in str(seen) and "hand" not in words
    whole = await why(store, waits.run_id)
    assert theirs.run_id in whole[0].run_ids and "3 of 3" in whole[0].text
