"""The database goes back: a standby without the last commits took over, or a backup was restored."""

from datetime import timedelta

import pytest

from duetime.engine.clock_guard import ClockGuard
from duetime.store.postgres import PostgresStore
from tests.contract.hands import LEASE
from tests.contract.worlds import PostgresWorld, execute


async def test_a_node_reports_how_far_and_judges_no_lease(
    store: PostgresStore, world: PostgresWorld, caplog: pytest.LogCaptureFixture
) -> None:
    guard, other = ClockGuard(store, lease=LEASE), ClockGuard(store, lease=LEASE)
    await guard.may_judge_leases()
    await other.may_judge_leases()
    assert (await store.clocks.clock_seen()).rewind is None
    execute(
        world.dsn,
        "update duetime.clock_watch set readings = readings - 2, seen_at = seen_at - interval '8 seconds'",
    )
    assert not await other.may_judge_leases()
    assert "the database went back by about 8.0 s" in caplog.text
    assert "runs are due and wait" in caplog.text
    rewind = (await store.clocks.clock_seen()).rewind
    assert rewind is not None
    assert rewind.kept is not None
    assert round((rewind.lost - rewind.kept).total_seconds()) == 8
    # Each node says it once, and a later one repeats what the first one found.
    caplog.clear()
    await other.may_judge_leases()
    assert "went back" not in caplog.text
    execute(world.dsn, "update duetime.clock_watch set readings = 0, rewound_at = rewound_at + interval '1 second'")
    assert not await guard.may_judge_leases()
    assert "the database went back by about 8.0 s" in caplog.text
    assert (await store.clocks.clock_seen()).rewind == rewind._replace(at=rewind.at + timedelta(seconds=1))
