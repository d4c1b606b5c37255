"""Which streams a worker leaves to others, at a broker whose streams have parts."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from uuid import uuid4

import pytest

from duetime import App
from duetime.ids import new_id
from duetime.model.job import DEFAULT_TENANT
from duetime.model.lane import Tier
from duetime.model.target import HTTP, SHELL
from duetime.model.worker import WorkerInfo
from duetime.streams.protocol import Consumer, PartConsumer
from duetime.worker import left_streams
from duetime.worker.consumed_streams import ConsumedStreams
from duetime.worker.left_streams import LeftStreams
from tests.support.brokers import running
from tests.support.jvm_servers import KafkaServer
from tests.support.streaming import QUEUE, Streamed, streamed
from tests.support.waiting import eventually

LONG = 60.0


class Member:
    """A worker, its consumer, and what it leaves to others."""

    def __init__(self, mail: Streamed, consumer: Consumer, worker: WorkerInfo) -> None:
        assert isinstance(consumer, PartConsumer)
        stream, self._text = mail.stream(), mail.stream().text
        self.consumer = consumer
        self.id = worker.id
        self.passed_over: Counter[tuple[int, str, int]] = Counter()
        self.consumed = ConsumedStreams()
        self.left = LeftStreams(
            mail.store, self.consumed, consumer, {stream.text: stream}, worker.id, worker.tasks, self.passed_over
        )

    @property
    def text(self) -> str:
        return self._text

    async def joins(self) -> None:
        """Consume, and record it."""

        async def takes_part() -> bool:
            await self.consumer.fetch([(self._text, 1)], 0.05)
            return self._text in self.consumer.takes_part_in()

        await eventually(takes_part, within=LONG)
        await self.left.tick()

    async def may_consume(self) -> bool:
        await self.left.tick()
        return self.left.open([self._text]) == [self._text]


class Fleet:
    """Workers of one store that consume one stream of Kafka, which has one partition: others get none."""

    def __init__(self, mail: Streamed) -> None:
        self.mail = mail
        self._open = AsyncExitStack()

    async def __aenter__(self) -> "Fleet":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def add(self, *tasks: str) -> Member:
        worker = WorkerInfo(new_id(), f"worker {uuid4()}", tasks, (), 10)
        await self.mail.store.leases.register(worker, timedelta(seconds=LONG))
        consumer = await self.mail.broker.consumer([self.mail.stream().text], f"{worker.id}-1", LONG)
        self._open.push_async_callback(consumer.close)
        return Member(self.mail, consumer, worker)


@asynccontextmanager
async def fleet(app: App) -> AsyncIterator[Fleet]:
    kafka = running(KafkaServer)
    assert isinstance(kafka, KafkaServer)
    address = kafka.address_with(f"partitions=1&prefix=t{uuid4().hex[:12]}")
    async with streamed(await app.store(), address) as mail, Fleet(mail) as found:
        yield found


@pytest.fixture(autouse=True)
def looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_streams, "_LOOK_EVERY", 0.0)
    monkeypatch.setattr(left_streams, "_LOOK_SOON", 0.0)


async def test_a_worker_of_targets_leaves_a_stream_without_targets_to_others(postgres_app: App) -> None:
    async with fleet(postgres_app) as workers:
        server, other_server = await workers.add(HTTP), await workers.add(HTTP, SHELL)
        assert server.left.open([server.text]) == []  # it has not looked
        for each in (server, other_server):
            assert await each.may_consume()
            await each.joins()

        app_worker = await workers.add("mails.send")
        await app_worker.joins()
        assert not await server.may_consume()
        assert not await other_server.may_consume()
        assert await app_worker.may_consume()

        # Runs for targets whose messages reached the app's worker were claimed in the store.
        other_server.passed_over[DEFAULT_TENANT, QUEUE, Tier.MEDIUM] += 19
        assert not await other_server.may_consume()
        other_server.passed_over[DEFAULT_TENANT, QUEUE, Tier.MEDIUM] += 1
        assert not await server.may_consume()
        assert await other_server.may_consume()

        await app_worker.left.close()
        assert await server.may_consume()


async def test_a_worker_without_free_slots_still_counts(postgres_app: App) -> None:
    async with fleet(postgres_app) as workers:
        server, app_worker = await workers.add(HTTP), await workers.add("mails.send")
        await app_worker.joins()
        app_worker.left.occupied()
        app_worker.consumer.leave(app_worker.text)
        assert not app_worker.consumer.takes_part_in()
        await app_worker.left.tick()
        assert not await server.may_consume()


async def test_a_worker_whose_event_loop_hangs_does_not_count(postgres_app: App) -> None:
    async with fleet(postgres_app) as workers:
        server, app_worker = await workers.add(HTTP), await workers.add("mails.send")
        await app_worker.joins()
        leases = workers.mail.store.leases
        await app_worker.consumed.check(leases, app_worker.id, LONG)
        assert not await server.may_consume()
        await app_worker.consumed.check(leases, app_worker.id, 0.0)
        assert await server.may_consume()
        await app_worker.left.tick()
        assert not await server.may_consume()


async def test_it_stays_for_a_while_after_a_message_for_it(postgres_app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    async with fleet(postgres_app) as workers:
        server, app_worker = await workers.add(HTTP), await workers.add("mails.send")
        await app_worker.joins()
        server.left.ours(server.text)
        assert await server.may_consume()
        monkeypatch.setattr(left_streams, "_LEFT_FOR", 0.0)
        assert not await server.may_consume()


async def test_runs_of_other_queues_and_tiers_are_no_reason_to_consume(postgres_app: App) -> None:
    async with fleet(postgres_app) as workers:
        server, app_worker = await workers.add(HTTP), await workers.add("mails.send")
        await app_worker.joins()
        server.passed_over |= {(DEFAULT_TENANT, "other", Tier.MEDIUM): 100, (DEFAULT_TENANT, QUEUE, Tier.HIGH): 100}
        assert not await server.may_consume()


async def test_a_worker_that_consumes_nothing_is_not_relied_on(postgres_app: App) -> None:
    async with fleet(postgres_app) as workers:
        server, _ = await workers.add(HTTP), await workers.add("mails.send")
        assert await server.may_consume()
