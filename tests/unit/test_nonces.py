"""Nonces: valid around their time, and the source of a job's id."""

from uuid import UUID, uuid4

import pytest

from duetime import ids
from duetime.errors import InvalidInput
from duetime.model.nonce import WINDOW, moved, read_nonce


def test_a_fresh_nonce_is_read_and_others_are_refused() -> None:
    nonce = ids.new_id()
    for seconds in (0, WINDOW - 5, 5 - WINDOW):
        assert read_nonce(str(moved(nonce, seconds))) == moved(nonce, seconds)
    for wrong in (
        "",
        "x",
        str(uuid4()),
        str(moved(nonce, WINDOW + 5)),
        str(moved(nonce, -WINDOW - 5)),
        str(UUID(int=0)),
    ):
        with pytest.raises(InvalidInput) as refused:
            read_nonce(wrong)
        assert refused.value.field == "Duetime-Nonce" and refused.value.remedy


def test_the_id_depends_on_nonce_tenant_and_place_and_keeps_time_and_order() -> None:
    nonce, other = ids.new_ids(2)
    batch = [ids.id_from_nonce(nonce, 1, place) for place in range(10_000)]
    assert batch == sorted(batch) == [ids.id_from_nonce(nonce, 1, place) for place in range(10_000)]
    assert len({*batch, ids.id_from_nonce(nonce, 2), ids.id_from_nonce(other, 1)}) == 10_002
    assert {each.version for each in batch} == {7}
    assert {ids.time_of(each) for each in batch} == {ids.time_of(nonce)}


def test_the_job_of_a_run_that_was_due_at_once() -> None:
    for job in (ids.new_id(), ids.id_from_nonce(ids.new_id(), 1, 77)):
        assert ids.job_of_ready(ids.ready_run_id(job)) == job


def test_a_batch_is_sampled_as_if_its_ids_were_drawn_by_lot() -> None:
    """Samples of jobs are taken by the last bytes of their ids: a batch must not be in one as a whole or not at all."""
    nonce = UUID("01920000-0000-7000-8000-000000000000")
    batch = [ids.id_from_nonce(nonce, 1, place) for place in range(10_000)]
    assert 900 < sum(each.bytes[-2:] < b"\x1a\x00" for each in batch) < 1130, "about a tenth"
