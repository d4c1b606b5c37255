"""Alerts about jobs: each incident is opened once and closed once, and nothing but an incident opens one."""

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest

from duetime.engine import clock_guard
from duetime.engine.alarm import Alarm
from duetime.engine.clock_guard import ClockGuard
from duetime.engine.notifier import Notifier
from duetime.engine.outbox import Outbox
from duetime.ids import new_id
from duetime.model.alert import Alert, AlertRule, Figure
from duetime.model.attempt import Claimed
from duetime.model.job import Options, encode_options
from duetime.model.lists import JobFilter
from duetime.model.notification import QUEUE, Subscription, Webhook
from duetime.model.schedule import Every, Once
from duetime.model.tenant import TenantChange, TenantState
from duetime.store.protocol.store import Store
from duetime.store.shared import clocks
from tests.contract.hands import TENANT, Hand, fire, hand, job, submit
from tests.contract.worlds import Time
from tests.support.lying import Lie

LEASE = timedelta(seconds=15)
HOUR = timedelta(hours=1)
TAGGED = encode_options(Options(name="nightly", tags=("money",)))


class Watch:
    """A node that watches, and a worker, in the hands of the test."""

    def __init__(self, store: Store, time: Time) -> None:
        self.store, self.time = store, time
        self.monotonic = 1000.0
        self.renew()

    def renew(self) -> None:
        """As after a restart of the process."""
        outbox = Outbox(self.store)
        self.notifier = Notifier(self.store, outbox)
        guard = ClockGuard(self.store, lease=LEASE)
        self.alarm = Alarm(self.store, outbox, guard=guard, public_url="https://d.example.com", every=timedelta(0))

    async def rule(self, figure: Figure, threshold: float, **subject: object) -> None:
        await self.store.notifications.put_subscription(
            TENANT, Subscription("ops", Webhook("https://ops.example.com/"), ("*",))
        )
        rule = AlertRule("rule", figure, threshold, **subject)  # type: ignore[arg-type]
        await self.store.notifications.put_alert(TENANT, rule)

    async def goes_on(self, seconds: float, step: float = 3.0) -> Alert:
        """Time passes, and the node does its rounds."""
        passed = 0.0
        while passed < seconds:
            by = min(step, seconds - passed)
            self.time.advance(seconds=by)
            self.monotonic += by
            passed += by
            await self.look()
        return await self.alert()

    async def look(self) -> Alert:
        await self.notifier.tick()
        await self.alarm.tick()
        return await self.alert()

    async def alert(self) -> Alert:
        return (await self.store.notifications.alerts(TENANT))[0]

    async def told(self) -> int:
        """How many notifications of alerts there are."""
        items = (await self.store.lists.list_jobs(TENANT, JobFilter(queue=QUEUE))).items
        return sum((item.options.name or "").startswith("job.") for item in items)

    async def text(self) -> str:
        message = (await self.alert()).message
        assert message is not None
        return message.text


@pytest.fixture
def watch(store: Store, time: Time, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    made = Watch(store, time)
    for module in (clock_guard, clocks):
        monkeypatch.setattr(module, "monotonic", lambda: made.monotonic)
    yield made


async def claimed(worker: Hand) -> list[Claimed]:
    """What waits, except notifications."""
    lanes = [lane for lane in await worker.store.claims.lanes() if lane.key.queue != QUEUE]
    worker.claim_no += 1
    return await worker.store.claims.claim(worker.id, worker.claim_no, [(lane.id, 100) for lane in lanes])


async def ran(worker: Hand, store: Store) -> None:
    """A tagged run that succeeded."""
    await submit(store, job(options=TAGGED))
    await worker.succeed(*await claimed(worker))


async def steady(watch: Watch) -> None:
    await watch.goes_on(40)
    assert not (await watch.alert()).open


async def recurring(store: Store, time: Time, every: timedelta = HOUR) -> UUID:
    made = await submit(store, job(Every(every, anchor=time.now), options=TAGGED))
    return made.job_id


@pytest.mark.parametrize("subject", [{"task": "greet"}, {"tag": "money"}, {"queue": "default"}, {}])
async def test_no_success_is_reported_once_and_the_next_success_resolves_it(
    store: Store, time: Time, watch: Watch, subject: dict[str, str]
) -> None:
    worker = await hand(store, timedelta(days=9))
    await watch.rule(Figure.NO_SUCCESS, 100, **subject)
    await steady(watch)
    await ran(worker, store)
    assert not (await watch.goes_on(98)).open, "the success counts, and the time before it does not"
    assert (await watch.goes_on(12)).open
    await watch.goes_on(30)
    assert await watch.told() == 1
    text = await watch.text()
    assert "has succeeded for 1m4" in text and "expected one within 1m40s" in text and "https://d.example.com/" in text
    await ran(worker, store)
    assert not (await watch.goes_on(6)).open
    assert await watch.told() == 2
    assert "resolved" in await watch.text()


async def test_a_failure_is_no_success(store: Store, time: Time, watch: Watch) -> None:
    worker = await hand(store, timedelta(days=9))
    await watch.rule(Figure.NO_SUCCESS, 60, task="greet")
    await steady(watch)
    for _ in range(4):
        await submit(store, job())
        await worker.fail((await claimed(worker))[0])
        await watch.goes_on(10)
    assert (await watch.alert()).open


async def test_time_counts_only_while_it_is_watched(store: Store, time: Time, watch: Watch) -> None:
    await watch.rule(Figure.NO_SUCCESS, 100, task="greet")
    await steady(watch)
    time.advance(hours=5)  # the clock steps
    assert not (await watch.goes_on(30)).open
    time.advance(hours=9)  # no node runs for a night
    watch.monotonic += 9 * 3600
    watch.renew()
    alert = await watch.goes_on(20)
    assert not alert.open and alert.value is not None and alert.value < 100
    time.advance(hours=-12)  # the clock is put back
    assert not (await watch.goes_on(6)).open
    assert (await watch.goes_on(90)).open, "what was watched adds up"


async def test_while_the_job_the_queue_or_the_tenant_is_paused_nothing_is_expected(
    store: Store, time: Time, watch: Watch
) -> None:
    job_id = await recurring(store, time)
    await watch.rule(Figure.NO_SUCCESS, 100, job=job_id)
    await steady(watch)
    await store.control.pause_job(TENANT, job_id)
    assert not (await watch.goes_on(150)).open
    await store.control.resume_job(TENANT, job_id)
    await store.queues.pause_queue(TENANT, "default")
    assert not (await watch.goes_on(150)).open
    await store.queues.resume_queue(TENANT, "default")
    await store.tenants.update_tenant(TENANT, TenantChange(state=TenantState.SUSPENDED))
    assert not (await watch.goes_on(150)).open
    await store.tenants.update_tenant(TENANT, TenantChange(state=TenantState.ACTIVE))
    assert not (await watch.goes_on(90)).open, "it has its whole time after the pause"
    assert (await watch.goes_on(20)).open
    assert "the job nightly" in await watch.text()


async def test_the_same_rule_again_does_not_begin_anew(store: Store, time: Time, watch: Watch) -> None:
    await watch.rule(Figure.NO_SUCCESS, 60, task="greet")
    await steady(watch)
    for _ in range(7):
        await watch.rule(Figure.NO_SUCCESS, 60, task="greet")
        await watch.goes_on(6)
    assert (await watch.alert()).open


async def test_a_start_that_is_missed(store: Store, time: Time, watch: Watch) -> None:
    job_id = await recurring(store, time)
    await watch.rule(Figure.NOT_STARTED, 60, job=job_id)
    await steady(watch)
    time.advance(seconds=3600 - 40)
    watch.monotonic += 3600 - 40
    watch.renew()
    await watch.goes_on(3)
    await fire(store)
    assert not (await watch.goes_on(50)).open
    assert (await watch.goes_on(30)).open
    text = await watch.text()
    assert "nightly (run_" in text and "due at 2026-03-02 10:00:00 UTC" in text
    assert "No live worker takes greet from the queue default" in text
    worker = await hand(store, timedelta(days=1))
    assert len(await claimed(worker)) == 1
    assert not (await watch.goes_on(3)).open
    assert await watch.told() == 2


@pytest.mark.parametrize("subject", [{"task": "greet"}, {"tag": "money"}, {}])
async def test_a_start_that_is_missed_among_the_runs_of_a_task_or_tag(
    store: Store, time: Time, watch: Watch, subject: dict[str, str]
) -> None:
    await watch.rule(Figure.NOT_STARTED, 60, **subject)
    await steady(watch)
    await submit(store, *(job(options=TAGGED) for _ in range(3)), job(Once(time.now + HOUR)), job(queue=QUEUE))
    await watch.goes_on(50)
    await store.queues.pause_queue(TENANT, "default")
    assert not (await watch.goes_on(60)).open
    await store.queues.resume_queue(TENANT, "default")
    assert not (await watch.goes_on(50)).open, "the pause does not count"
    assert (await watch.goes_on(15)).open
    worker = await hand(store, timedelta(days=1))
    await worker.succeed(*await claimed(worker))
    assert not (await watch.goes_on(3)).open
    assert await watch.told() == 2


async def test_an_occurrence_that_was_not_fired(store: Store, time: Time, watch: Watch) -> None:
    await recurring(store, time, timedelta(seconds=60))
    await watch.rule(Figure.NOT_STARTED, 60, tag="money")
    await watch.goes_on(150)
    assert (await watch.alert()).open
    assert "has not been fired" in await watch.text()


async def test_a_run_that_waits_for_its_retry_has_started(store: Store, time: Time, watch: Watch) -> None:
    await watch.rule(Figure.NOT_STARTED, 30, task="greet")
    await steady(watch)
    await submit(store, job())
    worker = await hand(store, timedelta(days=1))
    await worker.retry((await claimed(worker))[0], seconds=1)
    assert not (await watch.goes_on(60)).open


async def test_a_run_that_takes_unusually_long_while_it_is_running(store: Store, time: Time, watch: Watch) -> None:
    worker = await hand(store, timedelta(days=9))
    job_id = await recurring(store, time)
    await watch.rule(Figure.OVERTIME, 2, job=job_id)
    await steady(watch)
    for index in range(12):
        await store.control.trigger_job(TENANT, job_id, new_id().bytes)
        (run,) = await claimed(worker)
        alert = await watch.goes_on(10 + index % 3, step=20)
        assert not alert.open, "there is no usual duration yet, or it is usual"
        await worker.succeed(run)
    await store.control.trigger_job(TENANT, job_id, new_id().bytes)
    (run,) = await claimed(worker)
    assert not (await watch.goes_on(20)).open
    assert (await watch.goes_on(20)).open
    text = await watch.text()
    assert "has been running for" in text and "by its last 12 runs" in text
    await worker.succeed(run)
    assert (await watch.goes_on(9)).open, "the last one took long"
    await store.control.trigger_job(TENANT, job_id, new_id().bytes)
    (run,) = await claimed(worker)
    await watch.goes_on(10)
    await worker.succeed(run)
    assert not (await watch.goes_on(3)).open
    assert await watch.told() == 2


@pytest.mark.parametrize("lost", ["submit", "mark_alert_notified", "keep_alert"])
@pytest.mark.parametrize("happens", [True, False])
async def test_each_turn_is_told_once_whatever_fails(
    store: Store, time: Time, watch: Watch, lost: str, happens: bool
) -> None:
    worker = await hand(store, timedelta(days=9))
    await watch.rule(Figure.NOT_STARTED, 30, task="greet")
    await steady(watch)
    await submit(store, job())
    await watch.goes_on(29)
    for turn in (1, 2):
        Lie(store, lost, happens=happens)
        for _ in range(4):
            time.advance(seconds=2)
            watch.monotonic += 2
            try:
                await watch.look()
            except Exception as error:
                assert "unavailable" in type(error).__name__.lower()
                watch.renew()
                watch.monotonic += 1
        await watch.goes_on(30)
        assert await watch.told() == turn
        if turn == 1:
            await worker.succeed(*await claimed(worker))
