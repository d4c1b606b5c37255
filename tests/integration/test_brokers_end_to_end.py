"""A run through each broker, from the submission to the result."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient

from duetime import App, ids
from duetime.crypto.sealer import Sealer
from duetime.engine import stream_depths, stream_intake
from duetime.errors import InStream, NotFound
from duetime.model.carried import StreamSettings
from duetime.model.job import DEFAULT_TENANT
from duetime.model.run import RunState
from duetime.streams import fetch_plan
from duetime.streams.message import MessageCodec
from duetime.streams.setup import apply_change, check_change
from duetime.worker import left_streams
from tests.support.broker_server import BrokerServer
from tests.support.brokers import BROKERS, running
from tests.support.jvm_servers import KafkaServer
from tests.support.kafka_groups import members
from tests.support.rabbit_server import RabbitServer
from tests.support.receiver import receiving
from tests.support.streaming import Streamed, streamed
from tests.support.targeting import targeting
from tests.support.waiting import eventually
from tests.support.working import TIMEOUT, working

MAIL = "mail"


@pytest.mark.parametrize("kind", BROKERS, ids=lambda kind: kind.kind)
async def test_runs_go_through_the_broker(kind: type[BrokerServer], app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_intake, "SETTLED", 0.0)
    address = running(kind).address
    settings = StreamSettings(f"{address}{'&' if '?' in address else '?'}prefix=t{uuid4().hex[:12]}")

    @app.task(queue=MAIL, name="echo")
    async def echo(word: str) -> str:
        return word

    store = await app.store()
    checked = await check_change(store.streams, DEFAULT_TENANT, MAIL, lambda _: settings, sealed=False)
    await apply_change(store.streams, DEFAULT_TENANT, MAIL, checked)
    async with working(app):
        receipts = await asyncio.gather(*(app.submit("echo", {"word": str(n)}) for n in range(50)))
        assert {receipt.via for receipt in receipts} == {"stream"}
        results = await asyncio.gather(*(receipt.result(TIMEOUT) for receipt in receipts))
        assert results == [str(n) for n in range(50)]


async def test_partitions_are_not_left_to_workers_that_cannot_fetch_from_them(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_FIRST_LEFT", "_LONGEST_LEFT"):
        monkeypatch.setattr(fetch_plan, name, 3600.0)
    kafka = running(KafkaServer)
    assert isinstance(kafka, KafkaServer)

    @app.task(name="known")
    async def known() -> None: ...

    address = kafka.address_with(f"partitions=1&prefix=t{uuid4().hex[:12]}")
    async with streamed(await app.store(), address) as mail, working(app):
        for _ in range(2):
            (run,) = await mail.carry("unknown", {})
            await eventually(mail.is_empty, within=60)
            assert (await mail.store.reads.run(DEFAULT_TENANT, run.run_id)).state is RunState.PENDING


class Group:
    """The consumer group of a stream with two partitions."""

    def __init__(self) -> None:
        kafka = running(KafkaServer)
        assert isinstance(kafka, KafkaServer)
        self.address = kafka.address_with(f"partitions=2&prefix=t{uuid4().hex[:12]}")
        self._admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{kafka.port}"})

    async def has_members(self, mail: Streamed, wanted: int) -> bool:
        return len(await members(self._admin, mail.stream().text)) == wanted


async def test_a_worker_leaves_a_stream_to_those_that_have_its_tasks(
    postgres_app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs and announcements in its parts go through the store."""
    monkeypatch.setattr(left_streams, "_ENOUGH", 1)
    monkeypatch.setattr(left_streams, "_LOOK_EVERY", 0.2)

    @postgres_app.task(name="other")
    async def other() -> None: ...

    kafka = Group()
    async with (
        App(settings=postgres_app.settings) as echoing,
        streamed(await postgres_app.store(), kafka.address) as mail,
        working(postgres_app),
    ):

        @echoing.task(name="echo")
        async def echo() -> None: ...

        async def send_until(wanted: int) -> None:
            async def is_so() -> bool:
                await mail.carry("echo", {})
                return await kafka.has_members(mail, wanted)

            await eventually(is_so, within=60)

        await send_until(1)
        async with working(echoing):
            await eventually(lambda: kafka.has_members(mail, 2), within=60)
            await send_until(1)
            await eventually(mail.is_empty, within=60)
        await send_until(1)
        await eventually(mail.is_empty, within=60)


async def test_a_worker_gives_up_the_partitions_of_a_message_that_it_cannot_read(postgres_app: App) -> None:
    @postgres_app.task(name="echo")
    async def echo() -> None: ...

    kafka = Group()
    async with streamed(await postgres_app.store(), kafka.address) as mail, working(postgres_app):
        await eventually(lambda: kafka.has_members(mail, 1), within=60)
        mail.codec = MessageCodec(Sealer([("unknown", b"2" * 32)]))
        await mail.carry("echo", {})
        await eventually(lambda: kafka.has_members(mail, 0), within=60)
        assert await mail.depth() == 1


async def test_a_server_consumes_beside_workers_once_there_are_runs_for_targets(
    postgres_app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_intake, "SETTLED", 0.0)
    monkeypatch.setattr(left_streams, "_ENOUGH", 1)
    monkeypatch.setattr(left_streams, "_LOOK_EVERY", 0.2)

    @postgres_app.task(name="echo")
    async def echo() -> None: ...

    kafka = Group()
    settings = postgres_app.settings
    async with (
        streamed(await postgres_app.store(), kafka.address) as mail,
        working(postgres_app),
        receiving() as receiver,
    ):
        await eventually(lambda: kafka.has_members(mail, 1), within=60)
        async with targeting(settings.database_url, encryption_keys=settings.encryption_keys) as server:

            async def send() -> bool:
                run = await server.ended(queue=MAIL, target={"type": "http", "url": receiver.url})
                assert run["status"] == "SUCCEEDED", run
                return await kafka.has_members(mail, 2)

            await eventually(send, within=60)
        await eventually(mail.is_empty, within=60)


@pytest.mark.parametrize("kind", BROKERS, ids=lambda kind: kind.kind)
async def test_a_run_that_a_worker_holds_is_not_missing(kind: type[BrokerServer], app: App) -> None:
    address = running(kind).address
    store = await app.store()
    async with streamed(store, f"{address}{'&' if '?' in address else '?'}prefix=t{uuid4().hex[:12]}") as mail:
        (run,) = await mail.carry("echo", {})
        consumer = await mail.broker.consumer([mail.stream().text], uuid4().hex, 60.0)
        held = await consumer.fetch([(mail.stream().text, 1)], 20.0)
        assert len(held) == 1
        with pytest.raises(InStream):
            await app.run(run.run_id)
        await consumer.close()


async def test_an_old_id_is_missing_once_a_stream_was_found_empty(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """At RabbitMQ, which does not say what workers hold."""
    monkeypatch.setattr(stream_depths, "_HELD", 0.0)
    long_ago = ids.first_id_at(datetime.now(UTC) - timedelta(hours=1))

    async def is_missing() -> bool:
        try:
            await app.run(long_ago)
        except InStream:
            return False
        except NotFound:
            return True
        raise AssertionError("it was found")

    address = f"{running(RabbitServer).address}?prefix=t{uuid4().hex[:12]}"
    async with streamed(await app.store(), address):
        assert not await is_missing(), "it may be held"
        await eventually(is_missing)
