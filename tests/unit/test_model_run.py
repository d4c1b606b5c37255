"""The life of a run: one table, and every state derived from its row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.model.run import TRANSITIONS, Event, ImpossibleTransition, RunState, after, live_state, waiting_state

LIVE = [state for state in RunState if not state.is_end]
ENDS = [state for state in RunState if state.is_end]


def test_what_is_an_end() -> None:
    assert ENDS == [RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED]


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", ENDS)
def test_nothing_leads_out_of_an_end(state: RunState, event: Event) -> None:
    with pytest.raises(ImpossibleTransition, match=state.name):
        after(state, event)


@pytest.mark.parametrize("state", LIVE)
def test_every_live_state_can_be_cancelled(state: RunState) -> None:
    assert after(state, Event.CANCEL) is RunState.CANCELLED


@pytest.mark.parametrize("state", LIVE)
def test_every_live_state_can_reach_every_end_but_by_the_table(state: RunState) -> None:
    reached, edge = {state}, {state}
    while edge:
        edge = {
            target for (source, _), targets in TRANSITIONS.items() if source in edge for target in targets
        } - reached
        reached |= edge
    assert {RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED} <= reached


def test_only_a_running_run_succeeds_fails_retries_or_is_released() -> None:
    for event in (Event.SUCCEED, Event.FAIL, Event.RETRY, Event.RELEASE):
        assert [state for state, known in TRANSITIONS if known is event] == [RunState.RUNNING]


def test_only_a_waiting_run_is_claimed() -> None:
    assert {state for state, event in TRANSITIONS if event is Event.CLAIM} == {RunState.PENDING, RunState.RETRYING}


def test_a_released_run_waits_where_it_waited_before() -> None:
    assert after(RunState.RUNNING, Event.RELEASE) is RunState.PENDING
    assert after(RunState.RUNNING, Event.RELEASE, attempt=1) is RunState.RETRYING
    assert after(RunState.RUNNING, Event.RELEASE, lost=1) is RunState.RETRYING


@given(st.booleans(), st.booleans(), st.integers(0, 5), st.integers(0, 5))
def test_the_state_of_a_live_run_follows_from_its_row(claimed: bool, has_lane: bool, attempt: int, lost: int) -> None:
    state = live_state(claimed=claimed, has_lane=has_lane, attempt=attempt, lost=lost)
    assert not state.is_end
    assert (state is RunState.RUNNING) == claimed
    if not claimed:
        assert state is (waiting_state(attempt, lost) if has_lane else RunState.BLOCKED)


def test_the_stored_numbers_never_change() -> None:
    assert {state.name: int(state) for state in RunState} == {
        "PENDING": 0,
        "BLOCKED": 1,
        "RUNNING": 2,
        "RETRYING": 3,
        "SUCCEEDED": 4,
        "FAILED": 5,
        "CANCELLED": 6,
        "SKIPPED": 7,
    }
