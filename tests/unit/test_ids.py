"""Ids: unique, typed, and in the order in which they were drawn."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from duetime import ids
from duetime.errors import InvalidInput


def test_what_one_process_draws_ascends_also_within_a_millisecond() -> None:
    drawn = [ids.new_id() for _ in range(2000)] + ids.new_ids(2000) + [ids.new_id()]
    assert drawn == sorted(drawn)
    assert len(set(drawn)) == len(drawn)
    assert {identity.version for identity in drawn} == {7}


def test_the_order_holds_when_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    first = ids.new_id()
    monkeypatch.setattr(ids.time, "time_ns", lambda: 1_000_000)
    assert ids.new_id() > first


def test_threads_draw_different_ids() -> None:
    with ThreadPoolExecutor(4) as pool:
        drawn = [identity for batch in pool.map(ids.new_ids, [500] * 20) for identity in batch]
    assert len(set(drawn)) == 10_000


def test_text_sorts_as_ids_do_and_reads_back() -> None:
    drawn = ids.new_ids(100)
    shown = [ids.show("job", identity) for identity in drawn]
    assert shown == sorted(shown)
    assert [ids.parse("job", text) for text in shown] == drawn


@pytest.mark.parametrize("text", ["", "job", "run_01k00000000000000000000000", "job_8zzzzzzzzzzzzzzzzzzzzzzzzz"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a job id"):
        ids.parse("job", text)
