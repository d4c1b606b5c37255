"""Ids: they sort by time, read back, and a run's id is computed."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.errors import InvalidInput
from duetime.ids import new_id, new_ids, once_run_id, parse, run_id, show, time_of

WHEN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
moments = st.datetimes(
    WHEN.replace(year=1970, tzinfo=None), WHEN.replace(year=8999, tzinfo=None), timezones=st.just(UTC)
)


@given(st.uuids(), st.sampled_from(["job", "run", "wrk"]))
def test_an_id_reads_back_as_it_was_shown(identity: UUID, kind: str) -> None:
    text = show(kind, identity)  # type: ignore[arg-type]
    assert len(text) == 30
    assert parse(kind, text) == identity  # type: ignore[arg-type]


@given(st.uuids(), st.uuids())
def test_texts_sort_as_ids_do(one: UUID, other: UUID) -> None:
    assert (show("job", one) < show("job", other)) == (one < other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "job",
        "job_",
        "run_01k0000000000000000000000",
        "job_01k",
        "job_" + "u" * 26,
        "job_" + "8" + "0" * 25,
        "job_" + "0" * 27,
        "JOB_" + "0" * 26,
        "job_" + "0" * 25 + "A",
        "run_" + "0" * 26,
    ],
)
def test_what_is_no_job_id_is_refused_and_named(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a job id") as caught:
        parse("job", text)
    assert caught.value.field == "job_id"


@given(st.text(max_size=40))
def test_any_text_is_an_id_or_refused(text: str) -> None:
    try:
        identity = parse("run", text)
    except InvalidInput:
        return
    assert show("run", identity) == text


def test_drawn_ids_ascend_and_carry_their_time() -> None:
    ids = [new_id() for _ in range(100)] + new_ids(5000) + [new_id()]
    assert ids == sorted(set(ids))
    assert {identity.version for identity in ids} == {7}
    assert {identity.variant for identity in ids} == {"specified in RFC 4122"}
    assert abs(time_of(ids[0]) - datetime.now(UTC)) < timedelta(minutes=1)
    assert new_ids(0) == []


@given(st.uuids(), moments)
def test_a_runs_id_is_computed_and_starts_with_its_time(job: UUID, moment: datetime) -> None:
    identity = run_id(job, moment)
    assert identity == run_id(job, moment)
    assert identity.version == 8
    assert time_of(identity) == moment.replace(microsecond=moment.microsecond // 1000 * 1000)


@given(st.uuids(), st.uuids(), moments, moments)
def test_other_occurrences_have_other_ids(job: UUID, other: UUID, moment: datetime, later: datetime) -> None:
    assert (run_id(job, moment) == run_id(other, later)) == ((job, moment) == (other, later))
    assert run_id(job, moment, b"again") != run_id(job, moment)


def test_runs_of_one_off_jobs_sort_as_their_jobs_do() -> None:
    jobs = new_ids(200)
    runs = [once_run_id(job, WHEN) for job in jobs]
    assert runs == sorted(set(runs))
    assert {time_of(run) for run in runs} == {WHEN}
    assert once_run_id(jobs[0], WHEN + timedelta(milliseconds=1)) > runs[-1]
