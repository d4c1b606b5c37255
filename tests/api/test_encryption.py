"""What a copy of the database shows of a tenant whose content is encrypted, and of what signs: nothing."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from duetime import App, AsyncClient, Context
from duetime.errors import InvalidInput, KeyUnknown, NoEncryptionKey
from duetime.model.access import Role
from duetime.model.lists import DeadFilter
from duetime.model.notification import Topic
from duetime.model.tenant import TenantChange
from duetime.node.assembly import engine_loops
from tests.support.dumps import dumped, places_of
from tests.support.receiver import Receiver, receiving
from tests.support.served import ENCRYPTION, OTHER_KEY, Served, served
from tests.support.targeting import targeting
from tests.support.waiting import eventually
from tests.support.working import quick_settings, remote_worker, working


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as found:
        yield found


MARKER = "4111-1111-1111-1111"


def marked_app(database_url: str) -> tuple[App, asyncio.Event, asyncio.Event]:
    """An app whose tasks say the marker in every way there is; `pause` stops in the middle, until it is let go."""
    app = App(settings=msgspec.structs.replace(quick_settings(database_url), encryption_keys=(ENCRYPTION,)))
    paused, go_on = asyncio.Event(), asyncio.Event()

    @app.task(name="work")
    async def work(ctx: Context, card: str) -> dict[str, str]:
        ctx.logger.info("charging %s", card)
        ctx.progress(0.5, f"halfway through {card}")
        await ctx.checkpoint({"charged": card})
        if ctx.attempt == 1:
            paused.set()
            await go_on.wait()
            raise ValueError(f"declined {card} {'x' * 600} {card}")
        assert ctx.last_checkpoint == {"charged": card}
        return {"receipt": card}

    @app.task(name="child")
    async def child(ctx: Context) -> Any:
        return [parent.value for parent in await ctx.parents()]

    @app.task(name="fail")
    async def fail(card: str) -> None:
        raise ValueError(f"never {card}")

    return app, paused, go_on


async def encrypted(api: Served) -> None:
    assert (await api.ask("PATCH", "/v1/admin/tenants/default", {"encrypt_args": True})).status == 200


async def run_of(api: Served, run_id: str) -> Any:
    return (await api.get(f"/v1/runs/{run_id}")).json


async def until(api: Served, run_id: str, status: str) -> Any:
    async def there() -> Any:
        run = await run_of(api, run_id)
        return run if run["status"] == status else None

    return await eventually(there, what=f"{run_id} is {status}")


async def live_through(api: Served, database_url: str, paused: asyncio.Event, go_on: asyncio.Event) -> None:
    """Jobs that succeed, fail and depend on each other; the marker is looked for at every stage."""
    args = {"card": MARKER}
    made = (await api.post("/v1/jobs", {"task": "work", "args": args, "retry": {"retries": 1, "base": 0.01}})).json
    recurring = (await api.post("/v1/jobs", {"task": "work", "args": args, "every": "1h"})).json
    edited = await api.ask("PATCH", f"/v1/jobs/{recurring['job_id']}", {"args": {"card": f"{MARKER}!"}})
    assert edited.json["args"] == {"card": f"{MARKER}!"}
    child = (await api.post("/v1/jobs", {"task": "child", "depends_on": [made["job_id"]]})).json
    async with asyncio.timeout(20):
        await paused.wait()

    async def noted() -> Any:
        run = await run_of(api, made["run_id"])
        return run if run["progress"] and run["logs"] else None

    run = await eventually(noted)
    assert run["message"] == f"halfway through {MARKER}" and MARKER in str(run["logs"])
    assert places_of(MARKER, database_url) == set(), "while it runs"
    go_on.set()
    run = await until(api, made["run_id"], "SUCCEEDED")
    assert run["result"] == {"receipt": MARKER} and run["args"] == args
    assert run["attempts"][0]["error"].count(MARKER) >= 2 and MARKER in str(run["attempts"][0]["logs"])
    assert (await until(api, child["run_id"], "SUCCEEDED"))["result"] == [{"receipt": MARKER}]
    dead = (await api.post("/v1/jobs", {"task": "fail", "args": args, "retries": 0})).json
    other = (await api.post("/v1/jobs", {"task": "fail", "args": args, "retries": 0})).json
    for each in (dead, other):
        assert MARKER in (await until(api, each["run_id"], "FAILED"))["error"]
    for path in ("/v1/dead-letters", "/v1/dead-letters/groups", "/v1/runs?status=FAILED"):
        listed = (await api.get(path)).json
        assert MARKER in str(listed), path
    [group] = (await api.get("/v1/dead-letters/groups")).json["groups"]
    assert group["count"] == 2, "errors that are encrypted are grouped all the same"
    status = (await api.get(f"/v1/jobs/{dead['job_id']}/status")).json
    assert MARKER in status["failure_reason"]


async def test_nothing_that_a_job_says_is_stored_in_plaintext(database_url: str) -> None:
    app, paused, go_on = marked_app(database_url)
    async with served(database_url) as api:
        await encrypted(api)
        with app.using_store(api.store):
            async with working(app):
                await live_through(api, database_url, paused, go_on)
        assert places_of(MARKER, database_url) == set()
        with pytest.raises(InvalidInput, match="encrypted"):
            await api.store.lists.list_dead_letters(1, DeadFilter(error=MARKER))


@asynccontextmanager
async def moving(api: Served) -> AsyncIterator[None]:
    """The loops of a node, beside a server that has none."""
    loops = engine_loops(api.store, api.service.settings)
    running = [asyncio.create_task(loop.run()) for loop in loops]
    try:
        yield
    finally:
        for loop in loops:
            loop.stop()
        await asyncio.gather(*running)


async def test_nothing_that_a_remote_worker_says_is_stored_in_plaintext(database_url: str) -> None:
    app, paused, go_on = marked_app(database_url)
    async with served(database_url) as api:
        await encrypted(api)
        async with moving(api), remote_worker(app, api.url, await api.key(Role.WORKER)):
            await live_through(api, database_url, paused, go_on)
        assert places_of(MARKER, database_url) == set()


async def test_notifications_and_answers_of_receivers_are_encrypted_too(database_url: str) -> None:
    async with targeting(database_url) as targets, receiving() as receiver, receiving() as told:
        await encrypted(targets.api)
        to = {"to": {"type": "webhook", "url": told.url}, "topics": ["run.dead"]}
        assert (await targets.api.ask("PUT", "/v1/subscriptions/ops", to)).status == 200
        receiver.answers = [(404, {}, MARKER.encode()), (200, {}, MARKER.encode()), (202, {}, b"")]
        target = {"type": "http", "url": receiver.url, "body": MARKER}
        assert MARKER in (await targets.ended(target=target))["error"]
        assert (await targets.ended(target=target))["result"]["body"] == MARKER
        run_id = await targets.submit(target={**target, "finish_within": "1h"})
        link = (await receiver.got(3))[2].headers["duetime-completion"]
        await targets.until(run_id, "RUNNING")
        async with targets.api.http.post(link, json={"result": MARKER}) as answer:
            assert answer.status == 200
        assert (await targets.until(run_id))["result"] == MARKER
        assert MARKER.encode() in (await told.got(1))[0].body
        assert places_of(MARKER, database_url) == set()


async def test_addresses_of_notifications_are_credentials(database_url: str) -> None:
    """Also of a tenant that does not ask for encryption: the address is enough to post there."""
    async with targeting(database_url) as targets, receiving() as told:
        api, url = targets.api, f"{told.url}/T0/{MARKER}?token={MARKER}"
        for name, kind in (("ops", "webhook"), ("team", "slack")):
            to = {"to": {"type": kind, "url": url}, "topics": ["run.dead"]}
            made = await api.ask("PUT", f"/v1/subscriptions/{name}", to, key=await api.key(Role.OPERATOR))
            assert made.json["to"]["url"] == url
        sent = [(await api.post(f"/v1/subscriptions/{name}/test")).json for name in ("ops", "team")]
        assert {each.path for each in await told.got(2)} == {f"/hook/T0/{MARKER}?token={MARKER}"}
        told.answers = [(404, {}, b"")]
        sent.append((await api.post("/v1/subscriptions/ops/test")).json)
        assert (await targets.until(sent[-1]["run_id"]))["status"] == "FAILED"
        assert places_of(MARKER, database_url) == set()

        for role in (Role.ROOT, Role.OPERATOR):
            items = (await api.get("/v1/subscriptions", key=await api.key(role))).json["items"]
            assert {item["to"]["url"] for item in items} == {url}
        pages = ["/v1/subscriptions", "/v1/dead-letters", "/v1/runs", "/v1/jobs"]
        pages += [f"/v1/{kind}s/{each[f'{kind}_id']}" for each in sent for kind in ("run", "job")]
        for role in (Role.VIEWER, Role.SUBMITTER):
            key = await api.key(role)
            for page in pages:
                answer = await api.get(page, key=key)
                assert answer.status == 200 and MARKER.encode() not in answer.body, page
            items = (await api.get("/v1/subscriptions", key=key)).json["items"]
            assert {item["to"]["url"] for item in items} == {f"{told.url.removesuffix('/hook')}/…"}
        exported = (await api.get("/v1/export/subscriptions", key=await api.key(Role.ADMIN))).json["items"]
        assert {item["address"] for item in exported} == {url}


async def test_a_subscription_whose_key_is_gone_stops_no_other(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    to = {"to": {"type": "webhook", "url": f"https://example.com/{MARKER}"}, "topics": ["*"]}
    async with served(database_url) as api:
        assert (await api.ask("PUT", "/v1/subscriptions/old", to)).status == 200
    async with served(database_url, encryption_keys=(OTHER_KEY,)) as api:
        assert (await api.ask("PUT", "/v1/subscriptions/new", to)).status == 200
        for _ in range(2):
            found = {each.name: each for _, each in await api.store.notifications.subscriptions()}
        assert (found["old"].wants(Topic.RUN_DEAD), found["new"].wants(Topic.RUN_DEAD)) == (False, True)
        (said,) = (each.message for each in caplog.records if "subscription old" in each.message)
        assert "'first'" in said
        tested = await api.post("/v1/subscriptions/old/test")
        assert (tested.status, tested.code) == (409, "encryption_key_unknown")
        assert (await api.ask("PUT", "/v1/subscriptions/old", to)).status == 200
        assert (await api.post("/v1/subscriptions/old/test")).status == 202
    async with served(database_url, encryption_keys=()) as api:
        names = {loop.name for loop in engine_loops(api.store, api.service.settings)}
        assert "scanner" in names and not {"notifier", "alarm", "open breakers"} & names, "it cannot read where to send"


async def test_a_process_without_a_key_ends_runs_and_stores_nothing_of_them(database_url: str) -> None:
    """Arguments that were stored before the tenant asked for encryption can be worked on everywhere."""
    app, _, _ = marked_app(database_url)
    async with served(database_url, encryption_keys=()) as api:
        run_id = (await api.post("/v1/jobs", {"task": "fail", "args": {"card": "x"}, "retries": 0})).json["run_id"]
        await api.store.tenants.update_tenant(1, TenantChange(encrypt_args=True))
        with app.using_store(api.store):
            async with working(app):
                run = await until(api, run_id, "FAILED")
        assert "is not kept: this process has no encryption key" in run["error"] and "never" not in run["error"]


async def test_what_cannot_be_opened_is_told_with_the_name_of_the_key(database_url: str) -> None:
    app, _, _ = marked_app(database_url)
    async with served(database_url) as api:
        await encrypted(api)
        payload = (await api.ask("POST", "/v1/payloads", raw=b"bytes")).json["payload_ref"]
        with app.using_store(api.store):
            async with working(app):
                made = (await api.post("/v1/jobs", {"task": "fail", "args": {"card": MARKER}, "retries": 0})).json
                await until(api, made["run_id"], "FAILED")
    async with served(database_url, encryption_keys=(OTHER_KEY,)) as api:
        run = await run_of(api, made["run_id"])
        assert "it cannot be opened" in run["error"] and "'first'" in run["error"]
        assert (await api.get("/v1/dead-letters")).status == 200
        answer = await api.get(f"/v1/payloads/{payload}")
        assert (answer.status, answer.code) == (409, "encryption_key_unknown"), answer.body
        assert "'first'" in answer.json["detail"] and "DUETIME_ENCRYPTION_KEYS" in answer.json["remedy"]
        assert "retry-after" not in {name.lower() for name in answer.headers}
        async with AsyncClient(api.url, api.root) as client:
            with pytest.raises(KeyUnknown, match="'first'"):
                await client.get_payload(payload)
        for page in ("/v1/runs?page_size=1", "/v1/jobs?page_size=1"):
            assert (await api.get(page)).status in (200, 409), "what signs cursors is encrypted with that key"


async def test_no_signing_secret_is_stored_in_plaintext(database_url: str, receiver: Receiver) -> None:
    """Nor can one be stored by a process that has no key."""
    async with targeting(database_url) as targets:
        shown = (await targets.api.post("/v1/signing-secrets/rotate")).json["secret"].removeprefix("whsec_")
        await targets.api.ask("PUT", "/v1/secrets/crm", {"value": MARKER, "hosts": ["api.example.com"]})
        await targets.ended(target={"type": "http", "url": receiver.url, "finish_within": "1h"})
        for _ in range(2):
            await targets.api.post("/v1/jobs", {"task": "t", "every": "1h"})
        assert (await targets.api.get("/v1/jobs?page_size=1")).json["next_cursor"]
        secrets = [b64decode(shown), MARKER.encode()]
        for name in ("cursors", "completion links", "sessions"):
            secrets.append(await targets.api.store.tenants.secret(name, bytes(32)))
        assert len(set(secrets)) == 5
        for table, column, value in dumped(database_url):
            assert not any(secret in value or secret.hex().encode() in value for secret in secrets), (table, column)
    async with targeting(database_url, encryption_keys=(), worker=False) as targets:
        with pytest.raises(NoEncryptionKey, match="DUETIME_ENCRYPTION_KEYS"):
            await targets.api.store.tenants.secret("another", bytes(32))
        answer = await targets.api.post("/v1/signing-secrets/rotate")
        assert (answer.status, answer.code) == (409, "encryption_key_missing")
