"""The mutants that are run on real processes: each breaks whichever store there is."""

from datetime import timedelta

from chaos.mutants import MUTANTS
from duetime.model.run import RunState
from duetime.model.schedule import Once
from duetime.store.protocol.store import Completed, Store
from tests.contract.hands import TENANT, fire, hand, job, reap, submit
from tests.contract.worlds import Time


async def test_jobs_are_dropped(store: Store) -> None:
    with MUTANTS["drop-one-in-a-thousand"].broken(1):
        answers = await store.intake.submit(TENANT, [job() for _ in range(5_000)])
    assert len(answers) == 5_000
    assert 0 < 5_000 - (await store.reads.counts()).runs < 50


async def test_there_is_no_fence(store: Store, time: Time) -> None:
    slow, quick = await hand(store), await hand(store)
    await submit(store, job())
    late = await slow.claim_one()
    time.advance(minutes=1)
    await quick.register()
    assert await reap(store) == 1
    time.advance(minutes=1)
    await quick.register()
    run = await quick.claim_one()
    assert (await slow.succeed(late)).refused == {late.run_id}
    with MUTANTS["no-fence"].broken(1):
        assert await slow.succeed(late) == Completed()
        assert (await quick.succeed(run)).refused == {run.run_id}
    told = await store.reads.run(TENANT, run.run_id)
    assert (told.state, told.attempt, told.lost) == (RunState.SUCCEEDED, 1, 1)


async def test_a_run_is_ready_early(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Once(delay=timedelta(minutes=10))))
    time.advance(seconds=590)
    with MUTANTS["fire-early"].broken(1):
        assert (await fire(store)).fired == 1
    (run,) = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert run.due_at - run.ready_at == timedelta(seconds=1)
    time.advance(seconds=9)
    assert (await (await hand(store)).claim_one()).run_id == run.id
