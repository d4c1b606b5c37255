"""What the store refuses is refused for one job, and not for the jobs that are stored along with it."""

import asyncio
from typing import Any

import pytest

from duetime.errors import StoreUnavailable
from duetime.ids import new_id, show
from tests.support.served import Served

NOBODY = show("job", new_id())
REFUSED = {
    "exclude.calendars": {"cron": "0 9 * * *", "exclude": {"calendars": ["nope"]}},
    "depends_on": {"depends_on": {"jobs": [NOBODY]}},
    "after.job": {"after": {"job": NOBODY}},
}
"""What only the store can know to be wrong, by the field at fault."""


@pytest.mark.parametrize("field", REFUSED)
async def test_callers_who_come_together_are_refused_one_by_one(api: Served, field: str) -> None:
    given: list[dict[str, Any]] = [{"task": "t"}, {"task": "t"} | REFUSED[field], *([{"task": "t"}] * 18)]
    answers = await asyncio.gather(*(api.post("/v1/jobs", job) for job in given))
    assert [answer.status for answer in answers] == [201, 422, *([201] * 18)]
    assert answers[1].json["field"] == field
    assert (await api.store.reads.counts()).runs == 19


@pytest.mark.parametrize("field", REFUSED)
async def test_a_partial_batch_tells_of_each_item(api: Served, field: str) -> None:
    await api.post("/v1/jobs", {"task": "other", "idempotency_key": "used"})
    batch = [{"task": "t"}, {"task": "t", "idempotency_key": "used"}, {"task": "t"} | REFUSED[field]]
    answer = await api.post("/v1/jobs/batch?partial=true", batch)
    assert answer.status == 200, answer.body
    assert (answer.json["stored"], answer.json["refused"]) == (1, 2)
    good, reused, wrong = answer.json["items"]
    assert good["job"]["created"] is True and "problem" not in good
    assert (reused["index"], reused["problem"]["field"]) == (1, "idempotency_key")
    assert (wrong["index"], wrong["problem"]["code"], wrong["problem"]["field"]) == (2, "invalid_input", field)
    assert (await api.store.reads.counts()).runs == 2

    whole = await api.post("/v1/jobs/batch", batch)
    assert whole.status == 422 and (await api.store.reads.counts()).runs == 2, "all or nothing"


async def test_a_partial_batch_tells_what_is_stored_when_the_store_goes_away(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, asked = api.store.intake.submit, 0

    async def submit(tenant_id: int, jobs: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 3:  # the whole batch, its first job, and now
            raise StoreUnavailable("the database is away")
        return await really(tenant_id, jobs)

    monkeypatch.setattr(api.store.intake, "submit", submit)
    batch = [{"task": "t"}, {"task": "t"}, {"task": "t"} | REFUSED["after.job"], {"task": "t"}]
    answer = await api.post("/v1/jobs/batch?partial=true", batch)
    assert answer.status == 200, answer.body
    assert (answer.json["stored"], answer.json["refused"], asked) == (1, 3, 3)
    codes = [None if "problem" not in item else item["problem"]["code"] for item in answer.json["items"]]
    assert codes == [None, "unavailable", "unavailable", "unavailable"], "what is left is sent again, and nothing else"
    assert (await api.store.reads.counts()).runs == 1
