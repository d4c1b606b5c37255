"""Recurrence rules, several cron lines and `H` in both stores: stored, fired and edited like any other schedule."""

from datetime import UTC, timedelta
from typing import Any

import pytest

from duetime.model.edit import Changes
from duetime.model.job import Options, encode_options
from duetime.model.schedule import Cron, RRule, make_cron, make_rrule
from duetime.store.protocol.store import Store
from tests.contract.hands import TENANT, fire, job, submit
from tests.contract.worlds import START, Time

BERLIN = "Europe/Berlin"
H_LINE = make_cron("H H * * *", "UTC")


@pytest.mark.parametrize(
    "schedule",
    [
        make_rrule("DTSTART:20200106T090000 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH", BERLIN),
        make_rrule("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=17;BYMINUTE=0", BERLIN),
        make_cron("0 9 * * *; 30 17 * * *", BERLIN),
        make_cron("0 9 L-2,15W * *", "UTC"),
        make_cron("0 0 9 * * MON 2020-2100", "UTC"),
    ],
    ids=str,
)
async def test_it_is_stored_and_its_cursor_moves_on(store: Store, time: Time, schedule: Cron | RRule) -> None:
    submitted = await submit(store, job(schedule))
    found = await store.reads.job(TENANT, submitted.job_id)
    first = schedule.next_after(START)
    assert first is not None
    assert (found.schedule, found.next_run) == (schedule, first)
    time.advance(seconds=(first - START).total_seconds() + 1)
    await fire(store)
    following = schedule.next_after(first)
    assert following is not None
    # The run of the first is on its way; the cursor has moved on by itself.
    time.advance(seconds=(following - first).total_seconds())
    assert (await fire(store)).fired == 1


async def test_a_rule_that_has_ended_ends_its_job(store: Store, time: Time) -> None:
    begin = (START + timedelta(hours=1)).strftime("%Y%m%dT%H%M%S")
    rule = make_rrule(f"DTSTART:{begin} RRULE:FREQ=DAILY;COUNT=2")
    await submit(store, job(rule))
    for _ in range(2):
        time.advance(days=1)
        assert (await fire(store)).fired == 1
    time.advance(days=5)
    assert (await fire(store)).fired == 0


def keyed(key: str, **fields: Any) -> Any:
    return job(H_LINE, key=key, options=encode_options(Options(key=key)), **fields)


async def test_hashed_values_are_written_into_the_line_and_stay(store: Store, time: Time) -> None:
    submitted = await submit(store, keyed("reports"))
    found = await store.reads.job(TENANT, submitted.job_id)
    assert isinstance(found.schedule, Cron)
    assert (found.schedule.said, "H" in found.schedule.line) == ("H H * * *", False)
    assert found.next_run == found.schedule.next_after(START)
    # The same line under the key is the same request, and an edit of something else leaves the values alone.
    again = await submit(store, keyed("reports"))
    assert (again.job_id, again.created) == (submitted.job_id, False)
    edited = await store.control.edit_job(TENANT, submitted.job_id, Changes(args=b"[2]", schedule=H_LINE))
    assert edited.schedule == found.schedule
    # Another line with H goes by the same key; without a key it goes by the id.
    weekly = await store.control.edit_job(TENANT, submitted.job_id, Changes(schedule=make_cron("H H * * MON", "UTC")))
    assert isinstance(weekly.schedule, Cron)
    assert weekly.schedule.line == found.schedule.line.replace("* * *", "* * MON")


async def test_jobs_with_one_hashed_line_are_spread(store: Store, time: Time) -> None:
    times = set()
    for _ in range(40):
        submitted = await submit(store, job(H_LINE))
        found = await store.reads.job(TENANT, submitted.job_id)
        assert isinstance(found.schedule, Cron)
        times.add(found.schedule.line)
    assert len(times) > 35


async def test_another_schedule_kind_by_an_edit(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Cron("0 * * * *")))
    rule = make_rrule("FREQ=DAILY;BYHOUR=9;BYMINUTE=0", BERLIN)
    edited = await store.control.edit_job(TENANT, submitted.job_id, Changes(schedule=rule))
    assert (edited.schedule, edited.next_run) == (rule, rule.next_after(START))
    assert edited.next_run is not None and edited.next_run.astimezone(UTC) > START
