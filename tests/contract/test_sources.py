"""Sources: one holder at a time, and what it keeps."""

from datetime import UTC, datetime, timedelta

import pytest

from duetime.errors import NotFound
from duetime.ids import new_id
from duetime.model.job import DEFAULT_TENANT
from duetime.model.source import RedisSource, Source, SourceError, SourceProgress
from duetime.store.protocol.store import Store

LEASE = timedelta(seconds=15)
SOURCE = Source("orders", RedisSource(address="r.example.com:1", stream="s"), {"task": "ship"}, key="body.id")


async def test_a_source_is_set_listed_and_deleted(store: Store) -> None:
    made = await store.sources.put_source(DEFAULT_TENANT, SOURCE, paused=False)
    assert (made.source, made.version, made.held, made.marks) == (SOURCE, 1, False, {})
    assert await store.sources.sources() == await store.sources.sources(DEFAULT_TENANT) == [made]
    assert await store.sources.sources(DEFAULT_TENANT + 1) == []
    await store.sources.delete_source(DEFAULT_TENANT, "orders")
    for call in (
        store.sources.delete_source(DEFAULT_TENANT, "orders"),
        store.sources.source(DEFAULT_TENANT, "orders"),
        store.sources.pause_source(DEFAULT_TENANT, "orders", paused=True),
    ):
        with pytest.raises(NotFound):
            await call


async def test_one_node_reads_a_source(store: Store) -> None:
    made = await store.sources.put_source(DEFAULT_TENANT, SOURCE, paused=False)
    one, other = new_id(), new_id()
    assert await store.sources.take_source(made, one, LEASE) == {}
    assert await store.sources.take_source(made, other, LEASE) is None
    assert await store.sources.take_source(made, one, LEASE) == {}
    progress = SourceProgress({"0": "7"}, received=5, made=2, repeated=1, bad=2, reason="slow")
    errors = (SourceError("0/1", "wrong", datetime(2026, 1, 1, tzinfo=UTC)),)
    assert not await store.sources.keep_source(made, other, LEASE, progress)
    for each in (progress, SourceProgress({"0": "9"}, received=1, bad=1, errors=errors), SourceProgress({"0": "9"})):
        assert await store.sources.keep_source(made, one, LEASE, each)
    found = await store.sources.source(DEFAULT_TENANT, "orders")
    assert (found.received, found.made, found.repeated, found.bad) == (6, 2, 1, 3)
    assert (found.marks, found.errors, found.reason, found.held) == ({"0": "9"}, errors, None, True)

    # The next one begins where this one was, once it has let go or its lease has ended.
    await store.sources.release_source(made, other)
    assert await store.sources.take_source(made, other, LEASE) is None
    await store.sources.release_source(made, one)
    assert await store.sources.take_source(made, other, timedelta(0)) == {"0": "9"}
    assert await store.sources.take_source(made, one, LEASE) == {"0": "9"}
    assert not await store.sources.keep_source(made, other, LEASE, progress)


async def test_a_change_ends_the_reading(store: Store) -> None:
    made = await store.sources.put_source(DEFAULT_TENANT, SOURCE, paused=False)
    holder = new_id()
    await store.sources.take_source(made, holder, LEASE)
    assert await store.sources.keep_source(made, holder, LEASE, SourceProgress({"0": "3"}, received=3, stopped=True))
    stopped = await store.sources.source(DEFAULT_TENANT, "orders")
    assert stopped.stopped
    assert await store.sources.take_source(stopped, holder, LEASE) is None

    paused = await store.sources.pause_source(DEFAULT_TENANT, "orders", paused=True)
    assert (paused.paused, paused.stopped, paused.version) == (True, False, 2)
    assert not await store.sources.keep_source(made, holder, LEASE, SourceProgress({"0": "4"}))
    assert await store.sources.take_source(paused, holder, LEASE) is None
    again = await store.sources.put_source(DEFAULT_TENANT, SOURCE, paused=False)
    assert (again.received, again.marks, again.version) == (3, {"0": "3"}, 3)
    assert await store.sources.take_source(again, holder, LEASE) == {"0": "3"}
