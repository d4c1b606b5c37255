"""Arguments whose key is not known (yet, or any more): only their own run waits for it."""

import json
import time
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from duetime.clock import monotonic_from
from duetime.errors import SealBroken
from duetime.ids import parse
from duetime.model.access import Role
from duetime.model.tenant import TenantChange
from duetime.sdk.app import App
from tests.support.served import ENCRYPTION, OTHER_KEY, Served, served
from tests.support.waiting import eventually
from tests.support.working import quick_settings, remote_worker, working

WITHOUT_THE_KEY = pytest.mark.parametrize("keys", [(OTHER_KEY,), ()], ids=["another", "none"])
SECRET = {"task": "note", "args": {"text": "4111-1111"}}
CANNOT_BE_OPENED = "its arguments cannot be opened: it was encrypted with the key 'first'"


class Noting:
    """An app whose only task says what it was called with."""

    def __init__(self, database_url: str, keys: tuple[str, ...]) -> None:
        self.app = App(settings=msgspec.structs.replace(quick_settings(database_url), encryption_keys=keys))
        self.seen: list[str] = []

        @self.app.task(name="note")
        async def note(text: str) -> None:
            self.seen.append(text)


async def sealed_job(api: Served, **more: Any) -> dict[str, Any]:
    """A job of the default tenant, which has its arguments encrypted from now on."""
    assert (await api.ask("PATCH", "/v1/admin/tenants/default", {"encrypt_args": True})).status == 200
    answer = await api.post("/v1/jobs", SECRET | more)
    assert answer.status == 201, answer.body
    made: dict[str, Any] = answer.json
    return made


async def run_of(api: Served, run_id: str) -> Any:
    answer = await api.get(f"/v1/runs/{run_id}")
    assert answer.status == 200, answer.body
    return answer.json


async def waiting(api: Served, run_id: str) -> Any:
    """The run, once it was claimed and left to others who may have its key."""

    async def left() -> Any:
        run = await run_of(api, run_id)
        return run if run["attempts"] else None

    return await eventually(left)


def said_to_wait(run: Any) -> bool:
    [attempt] = run["attempts"]
    assert attempt["error"].startswith(CANNOT_BE_OPENED)
    return (run["status"], run["attempt"], run["lost"], attempt["status"]) == ("PENDING", 0, 0, "SNOOZED")


async def ended(api: Served, run_id: str) -> Any:
    async def over() -> Any:
        run = await run_of(api, run_id)
        return run if run["finished_at"] is not None else None

    return await eventually(over)


@WITHOUT_THE_KEY
async def test_a_worker_goes_on_beside_a_run_that_it_cannot_open(database_url: str, keys: tuple[str, ...]) -> None:
    async with served(database_url) as api:
        shut = (await sealed_job(api))["run_id"]
        other = await api.key(Role.ADMIN, (await api.tenant("other")).id)
        await api.post("/v1/jobs", {"task": "note", "args": {"text": "theirs"}}, key=other)
    noting = Noting(database_url, keys)
    async with served(database_url, encryption_keys=keys) as api:
        with noting.app.using_store(api.store):
            async with working(noting.app):
                run = await waiting(api, shut)
                await eventually(lambda: noting.seen == ["theirs"], what="the other tenant's run")
                await api.post("/v1/jobs", {"task": "note", "args": {"text": "later"}}, key=other)
                await eventually(lambda: noting.seen == ["theirs", "later"], what="what came later")
        assert said_to_wait(run)
        assert (await api.get("/v1/dead-letters")).json["items"] == []


@WITHOUT_THE_KEY
async def test_a_server_goes_on_beside_a_run_that_it_cannot_open(database_url: str, keys: tuple[str, ...]) -> None:
    async with served(database_url) as api:
        shut = (await sealed_job(api))["run_id"]
        await api.ask("PATCH", "/v1/admin/tenants/default", {"encrypt_args": False})
    async with served(database_url) as api:
        # Of the same tenant, so that both wait in one lane and are dealt out together.
        await api.post("/v1/jobs", {"task": "note", "args": {"text": "plain"}})
    noting = Noting(database_url, keys)
    async with served(database_url, encryption_keys=keys) as api:
        async with remote_worker(noting.app, api.url, await api.key(Role.WORKER)):
            run = await waiting(api, shut)
            await eventually(lambda: noting.seen == ["plain"], what="the run that can be opened")
            await api.post("/v1/jobs", {"task": "note", "args": {"text": "later"}})
            await eventually(lambda: noting.seen == ["plain", "later"], what="what came later")
        assert said_to_wait(run)


async def test_the_run_is_tried_once_somebody_has_the_key(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As while keys are rotated: the server encrypts with a new one, which the worker does not have yet."""
    monkeypatch.setattr("duetime.model.completion._FIRST_WAIT", timedelta(milliseconds=50))
    async with served(database_url) as api:
        shut = (await sealed_job(api))["run_id"]
    noting = Noting(database_url, (OTHER_KEY,))
    async with served(database_url, encryption_keys=(OTHER_KEY,)) as api:
        with noting.app.using_store(api.store):
            async with working(noting.app):
                await eventually(lambda: offered(api, shut, 2), what="it is offered again")
    async with served(database_url, encryption_keys=(OTHER_KEY, ENCRYPTION)) as api:
        with noting.app.using_store(api.store):
            async with working(noting.app):
                run = await ended(api, shut)
        assert (run["status"], run["attempt"]) == ("SUCCEEDED", 1)
        assert noting.seen == [SECRET["args"]["text"]]  # type: ignore[index]


async def offered(api: Served, run_id: str, times: int) -> bool:
    return len((await run_of(api, run_id))["attempts"]) >= times


async def test_a_run_whose_arguments_were_changed_ends(database_url: str) -> None:
    """No key will ever open them."""
    async with served(database_url) as api:
        run_id = (await sealed_job(api))["run_id"]
    same_name = f"first:{OTHER_KEY.partition(':')[2]}"
    noting = Noting(database_url, (same_name,))
    async with served(database_url, encryption_keys=(same_name,)) as api:
        with noting.app.using_store(api.store):
            async with working(noting.app):
                run = await ended(api, run_id)
        assert (run["status"], run["failure"], run["attempt"], run["lost"]) == ("FAILED", "error", 1, 0)
        assert run["error"].startswith("its arguments cannot be opened: the stored value was modified")
        [letter] = (await api.get("/v1/dead-letters")).json["items"]
        assert letter["run_id"] == run_id


@WITHOUT_THE_KEY
async def test_only_the_arguments_of_a_job_are_missing(database_url: str, keys: tuple[str, ...]) -> None:
    async with served(database_url) as api:
        job_id = (await sealed_job(api, every="1h"))["job_id"]
        target = {"target": {"type": "http", "url": "https://example.com/"}, "task": None, "args": None, "every": "1h"}
        call_id = (await sealed_job(api, **target))["job_id"]
        run_id = (await api.post(f"/v1/jobs/{job_id}/trigger")).json["run_id"]
    async with served(database_url, encryption_keys=keys) as api:
        for path in (f"/v1/jobs/{job_id}", f"/v1/jobs/{call_id}", f"/v1/runs/{run_id}"):
            answer = await api.get(path)
            assert answer.status == 200, answer.body
            assert answer.json["args"] == {} and answer.json.get("target") is None
            assert "the key 'first', which this process does not have" in answer.json["args_problem"]
        assert (await api.get(f"/v1/jobs/{job_id}/why")).json["reasons"][0]["code"] == "no_worker"
        for act in ("pause", "resume", "trigger"):
            answer = await api.post(f"/v1/jobs/{job_id}/{act}")
            assert answer.status in (200, 201), answer.body
        assert (await api.post(f"/v1/runs/{run_id}/cancel")).json["status"] == "CANCELLED"
        assert (await api.post(f"/v1/runs/{run_id}/retry")).json["status"] == "PENDING"
        changed = await api.ask("PATCH", f"/v1/jobs/{job_id}", {"name": "renamed"})
        assert changed.status == 200 and changed.json["args_problem"] is not None
        [first, *_] = await api.store.reads.runs_of_job(1, parse("job", job_id))
        with pytest.raises(SealBroken, match="its arguments cannot be opened"):
            _ = first.arguments
    async with served(database_url) as api:
        job = (await api.get(f"/v1/jobs/{job_id}")).json
        assert (job["args"], job["args_problem"], job["name"]) == (SECRET["args"], None, "renamed")
        assert (await api.get(f"/v1/jobs/{call_id}")).json["target"]["url"] == "https://example.com/"


async def test_new_arguments_make_a_job_readable_again(database_url: str) -> None:
    async with served(database_url) as api:
        job_id = (await sealed_job(api, every="1h"))["job_id"]
    async with served(database_url, encryption_keys=(OTHER_KEY,)) as api:
        changed = await api.ask("PATCH", f"/v1/jobs/{job_id}", {"args": {"text": "new"}})
        assert (changed.json["args"], changed.json["args_problem"]) == ({"text": "new"}, None)
        assert json.loads((await api.store.reads.job(1, parse("job", job_id))).args) == {"text": "new"}


async def test_nothing_is_stored_as_it_is_where_no_key_is(database_url: str) -> None:
    async with served(database_url) as api:
        earlier = await sealed_job(api, key="report", run_at="2035-01-01T00:00:00Z")
    async with served(database_url, encryption_keys=()) as api:
        for refused in (
            await api.post("/v1/jobs", SECRET),
            await api.post("/v1/jobs/batch", [SECRET]),
            await api.ask("PATCH", f"/v1/jobs/{earlier['job_id']}", {"args": {"text": "4111-1111"}}),
        ):
            assert refused.status == 409 and b"encryption_keys" in refused.body, refused.body
        assert (await api.store.reads.counts()).jobs == 1
        other = await api.key(Role.ADMIN, (await api.tenant("other")).id)
        assert (await api.post("/v1/jobs", SECRET, key=other)).status == 201, "who asks for nothing is let in"


async def test_a_process_without_keys_learns_soon_that_a_tenant_wants_them(database_url: str) -> None:
    async with served(database_url, encryption_keys=()) as api:
        assert (await api.post("/v1/jobs", SECRET)).status == 201
        await api.store.tenants.update_tenant(1, TenantChange(encrypt_args=True))
        with monotonic_from(lambda: time.monotonic() + 4):
            refused = await api.post("/v1/jobs", SECRET)
        assert refused.status == 409, "what another process was told holds here in 3 s"
