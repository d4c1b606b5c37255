"""Pauses, edits, calendars, triggers and cancellations in any order: each occurrence is decided about once."""

from datetime import timedelta
from random import Random
from uuid import UUID

import pytest

from duetime.errors import Conflict
from duetime.ids import run_id
from duetime.model.attempt import Claimed
from duetime.model.edit import Changes
from duetime.model.job import JobState, Options, encode_options
from duetime.model.policy import Misfire
from duetime.model.run import RunState
from duetime.model.schedule import Cron, make_exclusion
from duetime.store.protocol.store import Store
from tests.contract.hands import TENANT, Hand, fire, hand, job, submit
from tests.contract.worlds import START, Time

MINUTE = timedelta(minutes=1)
OVERLAPS = ("allow", "queue", "skip", "replace")


class Story:
    """What happens to one job."""

    def __init__(self, random: Random, time: Time, worker: Hand, job_id: UUID) -> None:
        self._random, self._time, self._worker, self._store = random, time, worker, worker.store
        self._job_id = job_id
        self.paused = False
        self.manual: set[UUID] = set()
        self._started: set[UUID] = set()
        self._held: list[Claimed] = []
        """Claimed ahead, and not started."""

    async def step(self) -> None:
        match self._random.randrange(11):
            case 0 | 1 | 2:
                self._time.advance(minutes=self._random.choice([0.3, 1, 2, 7]))
                await fire(self._store)
                await self._store.firing.unblock(10)
            case 3 | 4 | 5:
                await self._work()
            case 6:
                changes = Changes(options={"overlap": self._random.choice(OVERLAPS)})
                await self._store.control.edit_job(TENANT, self._job_id, changes)
            case 7:
                run = await self._store.control.trigger_job(TENANT, self._job_id, self._random.randbytes(8))
                self.manual.add(run.id)
            case 8:
                days = [START.date() + timedelta(days=self._random.randint(5, 9))]
                await self._store.calendars.set_calendar(TENANT, "off", days)
            case 9:
                runs = await self._store.reads.runs_of_job(TENANT, self._job_id, 1000)
                if waiting := [run.id for run in runs if run.state is RunState.PENDING]:
                    await self._store.control.cancel_run(TENANT, self._random.choice(waiting))
            case _:
                steer = self._store.control.resume_job if self.paused else self._store.control.pause_job
                await steer(TENANT, self._job_id)
                self.paused = not self.paused

    async def _work(self) -> None:
        if self._held and self._random.random() < 0.5:
            run = self._held.pop(self._random.randrange(len(self._held)))
            await self._store.completions.hand_back(self._worker.id, [(run.run_id, run.fence)])
        for run in await self._worker.claim(self._random.randint(1, 3)):
            may_start = not self.paused or run.run_id in self._started | self.manual
            assert may_start, "it starts while its job is paused"
            if self._random.random() < 0.3:
                self._held.append(run)
                continue
            self._started.add(run.run_id)
            end = self._random.choice([self._worker.succeed, self._worker.fail, self._worker.retry, None])
            if end is not None:
                await end(run)
        await self._store.firing.unblock(10)


@pytest.mark.parametrize("seed", range(16))
async def test_each_occurrence_is_decided_about_once(store: Store, time: Time, seed: int) -> None:
    random = Random(seed)
    options = Options(
        misfire=Misfire("all", most=1000, age=1e9),
        jitter=random.choice([0.0, 0.0, 150.0]),
        overlap=random.choice(OVERLAPS),
        max_runs=random.choice([None, None, 5, 15]),
    )
    await store.calendars.set_calendar(TENANT, "off", [])
    every_minute = Cron("* * * * *", exclude=make_exclusion(calendars=["off"]))
    job_id = (await submit(store, job(every_minute, options=encode_options(options)))).job_id
    story = Story(random, time, await hand(store, timedelta(days=9)), job_id)
    for _ in range(80):
        try:
            await story.step()
        except Conflict:
            assert (await store.reads.job(TENANT, job_id)).state is JobState.ENDED
            break
    if story.paused and (await store.reads.job(TENANT, job_id)).state is JobState.PAUSED:
        await store.control.resume_job(TENANT, job_id)
    await fire(store)
    await fire(store)
    found = await store.reads.job(TENANT, job_id)
    runs = [run for run in await store.reads.runs_of_job(TENANT, job_id, 2000) if run.id not in story.manual]
    skipped = [run for run in runs if run.state is RunState.SKIPPED]
    ids = {run.id for run in runs}
    assert len(ids) == len(runs)
    assert (found.made, found.missed) == (len(runs) - len(skipped), len(skipped))
    assert options.max_runs is None or found.made <= options.max_runs
    if found.state is not JobState.ENDED:
        minutes = int((time.now - START) / MINUTE)
        wanted = {run_id(job_id, START + minute * MINUTE) for minute in range(1, minutes + 1)}
        assert wanted <= ids <= wanted | {run_id(job_id, START + (minutes + 1) * MINUTE)}
