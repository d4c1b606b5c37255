"""What a broker may be asked to hold, and for how long it holds it."""

import logging
from datetime import UTC, datetime, timedelta

import pytest

from duetime.engine.stream_keeper import StreamKeeper
from duetime.errors import Conflict
from duetime.model.carried import StreamSettings
from duetime.model.job import DEFAULT_TENANT
from duetime.model.lane import Tier
from duetime.store.address import store_in_memory
from duetime.streams.brokers import Brokers
from duetime.streams.protocol import Depth
from duetime.streams.setup import MOST_STREAMS, check_change
from duetime.telemetry.meters import Meters

NOW = datetime(2026, 5, 1, tzinfo=UTC)


async def test_a_broker_has_a_thousand_streams_at_most() -> None:
    store = store_in_memory()
    await store.open()
    await store.migrate()
    for number in range(MOST_STREAMS // len(Tier)):
        # Other users and prefixes do not make it another broker.
        address = f"redis://user{number}:secret@Localhost:1/0?prefix=p{number}"
        await store.streams.set_stream(DEFAULT_TENANT, f"queue-{number}", StreamSettings(address))
    one_more = StreamSettings("redis://localhost:1/0")
    with pytest.raises(Conflict, match="333 queues go through this broker, with 999 streams, and it may have 1,000"):
        await check_change(store.streams, DEFAULT_TENANT, "mail", lambda _: one_more, sealed=True)
    await store.close()


def test_messages_that_wait_for_half_of_their_retention_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    meters = Meters()
    keeper = StreamKeeper(store_in_memory(), Brokers(), meters, lease=timedelta(seconds=15))

    def look(age: float, kept: timedelta | None) -> float:
        depths = {"mail": Depth(3, NOW - timedelta(hours=age), kept)}
        keeper._show({Tier.HIGH: depths}, NOW)
        keeper._warn(depths, NOW)
        return meters.gauges["duetime_stream_retention_used"]()["high",]

    with caplog.at_level(logging.ERROR):
        day = timedelta(days=1)
        assert (look(6, day), look(1000, None)) == (0.25, 0.0)
        assert not caplog.messages
        assert [look(18, day), look(19, day)] == [0.75, 19 / 24]
        assert len(caplog.messages) == 1 and "messages in mail wait for 75 %" in caplog.messages[0]
        look(6, day)
        look(18, day)
        assert len(caplog.messages) == 2
