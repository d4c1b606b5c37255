"""Cursors: a caller that goes on with a list learns nothing from its cursor."""

from base64 import urlsafe_b64decode
from uuid import UUID

import pytest

from duetime.ids import parse
from duetime.model.access import Role
from duetime.store.rules.list_pages import LIVE_BOUND, SPARSE_BOUND
from tests.contract.hands import job
from tests.support.served import Served


async def runs_of(api: Served, tenant_id: int, count: int) -> list[UUID]:
    """The runs of so many new jobs, newest first."""
    made = await api.store.intake.submit(tenant_id, [job(tenant_id=tenant_id) for _ in range(count)])
    return sorted((answer.run_id for answer in made if answer.run_id is not None), reverse=True)


async def test_a_cursor_names_no_run_of_anybody(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.store.shared.lists.MOST_SECONDS", -1.0)  # an empty page reads on otherwise
    mine, theirs = (await api.tenant("mine")).id, (await api.tenant("theirs")).id
    own = await runs_of(api, mine, LIVE_BOUND + 50)
    others = await runs_of(api, theirs, SPARSE_BOUND + 50)
    key, seen, decoded = await api.key(Role.VIEWER, mine), [], []
    path, cursor = "/v1/runs?status=PENDING&page_size=200", ""
    while True:
        page = (await api.get(path + cursor, key=key)).json
        seen += [parse("run", item["run_id"]) for item in page["items"]]
        if page["next_cursor"] is None:
            break
        decoded.append(urlsafe_b64decode(page["next_cursor"] + "=="))
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == own, "every run once"
    assert len(decoded) > len(own) // 200, "the first page ends among the others' runs"
    parts = {part[start : start + size] for part in decoded for size in (6, 16) for start in range(len(part))}
    ids = [run.bytes for run in (*own, *others)]
    assert parts.isdisjoint(ids), "no run's id"
    assert parts.isdisjoint(run[:6] for run in ids), "nor the moment at which one was due"
