"""Reasons for any facts: a waiting run has one, and a caller with a scope learns nothing of others."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from duetime.model.attempt import Attempt, AttemptState
from duetime.model.breaker import BreakerState
from duetime.model.job import JobState
from duetime.model.lane import Tier, Trial
from duetime.model.limits import LimitKind, Rate
from duetime.model.run import RunState, WaitsFor
from duetime.model.tenant import TenantState
from duetime.model.waiting import (
    AHEAD_CAP,
    NEWER_RELEASE,
    JobFacts,
    LimitFacts,
    RunFacts,
    Serving,
    WaitingParent,
    why_job_waits,
    why_run_waits,
)

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
FEW = st.integers(0, 50)
IDS = st.integers(1, 2**64).map(lambda number: UUID(int=number))
SOME = st.lists(IDS, max_size=6).map(tuple)
MOMENTS = st.integers(-(10**6), 10**6).map(lambda seconds: NOW + timedelta(seconds=seconds))
RATE = Rate(7, timedelta(minutes=1))
LIMITS = st.builds(
    LimitFacts,
    kind=st.sampled_from(LimitKind),
    name=st.just("a-name"),
    running=st.none() | FEW,
    live=FEW,
    full=st.booleans(),
    rate=st.none() | st.just(RATE),
    free_at=st.none() | MOMENTS,
    holders=SOME,
)
SERVING = st.builds(
    Serving,
    workers=FEW,
    elsewhere=FEW,
    slots=FEW,
    busy=FEW,
    last_name=st.just("worker-of-ann"),
    last_ended_at=st.none() | MOMENTS,
    last_lost=st.booleans(),
)
FACTS = st.builds(
    RunFacts,
    now=st.just(NOW),
    run_id=IDS,
    job_id=IDS,
    state=st.sampled_from([RunState.PENDING, RunState.RETRYING, RunState.BLOCKED]),
    task=st.just("a.task"),
    queue=st.just("a-queue"),
    tier=st.sampled_from(Tier),
    due_at=MOMENTS,
    ready_at=MOMENTS,
    trial=st.sampled_from(Trial),
    waits=st.sampled_from(WaitsFor),
    tenant_state=st.sampled_from(TenantState),
    paused_at=st.none() | MOMENTS,
    parked=st.none() | LIMITS,
    put_off=st.none() | LIMITS,
    limits=st.lists(LIMITS, max_size=2).map(tuple),
    breaker=st.none() | st.tuples(st.just("a-host"), st.sampled_from(BreakerState), st.none() | MOMENTS),
    serving=SERVING,
    higher=st.integers(0, AHEAD_CAP),
    earlier=st.integers(0, AHEAD_CAP),
    other_runs=SOME,
    parents=st.lists(st.builds(WaitingParent, IDS, st.none() | st.just("parent-of-ann")), max_size=3).map(tuple),
    unended=FEW,
    losses=st.integers(0, 9),
    lost_at=st.none() | MOMENTS,
)
LAST = st.none() | st.builds(
    Attempt,
    attempt=FEW,
    fence=FEW,
    state=st.sampled_from(AttemptState),
    worker_id=st.none(),
    started_at=st.none(),
    finished_at=st.just(NOW),
    failure=st.none(),
    error=st.none() | st.just("it failed\nbelow"),
    logs=st.none(),
)


@settings(max_examples=30)
@given(FACTS, LAST, st.none() | st.just("shelf 3") | st.just(f"{NEWER_RELEASE}: x"))
def test_a_waiting_run_has_reasons_in_words(facts: RunFacts, last: Attempt | None, message: str | None) -> None:
    for seen in (facts, facts.within((), ())):
        reasons = why_run_waits(seen, last, message)
        assert reasons
        assert len({each.code for each in reasons}) >= 1
        for each in reasons:
            assert each.text[0].isupper() and each.text.endswith("."), each
            assert each.fix is None or each.fix
            assert "None" not in each.text and "\n" not in each.text, each
            assert len(each.run_ids) <= 5 and len(each.job_ids) <= 5


@settings(max_examples=5)
@given(FACTS, st.sampled_from([RunState.RUNNING, RunState.SUCCEEDED, RunState.FAILED]))
def test_a_run_that_does_not_wait_has_none(facts: RunFacts, state: RunState) -> None:
    assert why_run_waits(replace(facts, state=state)) == []


def _other(limit: LimitFacts | None) -> LimitFacts | None:
    return limit and replace(limit, live=(limit.live or 0) + 7, running=None, holders=())


@settings(max_examples=30)
@given(FACTS, LAST)
def test_nothing_of_others_reaches_a_scope(facts: RunFacts, last: Attempt | None) -> None:
    hidden = facts.within((), ())
    reasons = why_run_waits(hidden, last)
    assert all(not each.run_ids and not each.job_ids for each in reasons)
    assert "ann" not in str(reasons)
    # What others have, other than that they have something, makes no difference.
    others: dict[str, Any] = {
        "parked": _other(facts.parked),
        "put_off": _other(facts.put_off),
        "limits": tuple(_other(limit) for limit in facts.limits),
        "higher": facts.higher and 1,
        "earlier": facts.earlier and 1,
        "other_runs": (),
        "parents": (),
        "unended": facts.unended + 3,
        "serving": replace(
            facts.serving,
            workers=min(facts.serving.workers, 1),
            slots=facts.serving.slots * 2,
            busy=facts.serving.busy * 2,
            last_name="another",
            last_ended_at=None,
        ),
    }
    assert why_run_waits(replace(facts, **others).within((), ()), last) == reasons


@settings(max_examples=30)
@given(
    st.builds(
        JobFacts,
        now=st.just(NOW),
        state=st.sampled_from(JobState),
        next_run=st.none() | MOMENTS,
        problem=st.none() | st.just("a problem."),
        is_follower=st.booleans(),
        follows=st.none() | IDS,
        tenant_state=st.sampled_from(TenantState),
        held_back=st.booleans(),
        fires_per_second=st.none() | st.just(3.0),
    )
)
def test_a_job_with_a_next_run_has_reasons(facts: JobFacts) -> None:
    reasons = why_job_waits(facts)
    if facts.state >= JobState.ENDED:
        assert reasons == []
    elif facts.next_run is not None or facts.problem or facts.state is JobState.PAUSED:
        assert reasons
    for each in why_job_waits(facts.within(())):
        assert not each.job_ids and "3 per second" not in each.text
