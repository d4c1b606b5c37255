"""Re-encryption: everything comes to be encrypted with the current key, beside live work and whatever is killed."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from duetime.cli.main import application
from duetime.crypto.sealer import MAGIC, TEXT_MAGIC, key_name_of
from duetime.engine import reencryption
from duetime.errors import KeyUnknown
from duetime.ids import new_id, parse
from duetime.model.access import Role
from duetime.model.attempt import AttemptState, Completion, RunNote
from duetime.model.carried import StreamSettings
from duetime.model.failure import FailureClass
from duetime.model.job import DEFAULT_TENANT
from duetime.model.notification import Subscription, Topic, Webhook
from duetime.model.retry import Verdict
from duetime.model.run import Event
from duetime.model.worker import WorkerInfo
from duetime.store.rules.encrypted_columns import SEALED_TABLES, Resealed, SealedTable
from tests.support.dumps import dumped
from tests.support.served import ENCRYPTION, OTHER_KEY, Served, served

NEW_FIRST = (OTHER_KEY, ENCRYPTION)
TEXT = "4111-1111-1111-1111"
LONG = f"{TEXT} {'x' * 1000}"
EVERYWHERE = {f"{table.name}.{column}" for table in SEALED_TABLES for column in table.columns}
STEP = "/v1/admin/encryption/re-encrypt"


def keys_in_use(database_url: str) -> dict[str, set[str]]:
    """The names of the keys that values are encrypted with, by table and column."""
    found: dict[str, set[str]] = {}
    for table, column, value in dumped(database_url):
        if value.startswith((MAGIC, TEXT_MAGIC.encode())):
            sealed = value if value.startswith(MAGIC) else value.decode()
            found.setdefault(f"{table}.{column}", set()).add(key_name_of(sealed).decode())
    return found


def names(database_url: str) -> set[str]:
    return set().union(*keys_in_use(database_url).values())


async def filled(api: Served, database_url: str) -> dict[str, Any]:
    """Something encrypted in every column that may hold it."""
    assert (await api.ask("PATCH", "/v1/admin/tenants/default", {"encrypt_args": True})).status == 200
    await api.ask("PUT", "/v1/secrets/crm", {"value": TEXT, "hosts": ["api.example.com"]})
    await api.post("/v1/signing-secrets/rotate")
    made = {"payload": (await api.ask("POST", "/v1/payloads", raw=TEXT.encode())).json["payload_ref"]}
    await api.store.tenants.secret("cursors", bytes(32))
    for index in range(3):
        body = {"task": "work", "args": {"text": f"{TEXT}-{index}"}, "run_at": "2035-01-01T00:00:00Z"}
        made["job"] = (await api.post("/v1/jobs", body)).json["job_id"]
    for _ in range(3):
        await api.post("/v1/jobs", {"task": "work", "args": {"text": TEXT}})
    store, worker = api.store, WorkerInfo(new_id(), "w", ("work",), (), 10)
    await store.leases.register(worker, timedelta(hours=1))
    failed, done, held = await store.claims.claim(worker.id, 1, [(lane.id, 10) for lane in await store.claims.lanes()])
    logs = json.dumps({"lines": [{"text": TEXT}]}).encode()
    note = RunNote(held.run_id, held.fence, 0.5, TEXT, json.dumps(TEXT).encode(), logs)
    await store.completions.note(worker.id, [note])
    ends = [
        Completion(
            failed.run_id, failed.fence, Verdict(Event.FAIL), AttemptState.FAILED, FailureClass.ERROR, LONG, logs=logs
        ),
        Completion(done.run_id, done.fence, Verdict(Event.SUCCEED), AttemptState.SUCCEEDED, result=b'"x"', logs=logs),
    ]
    await store.completions.complete(worker.id, ends)
    await store.streams.set_stream(DEFAULT_TENANT, "mail", StreamSettings(f"redis://:{TEXT}@localhost/0"))
    hook = Subscription("ops", Webhook(f"https://example.com/{TEXT}"), (Topic.RUN_DEAD,))
    await store.notifications.put_subscription(DEFAULT_TENANT, hook)
    made |= {"failed": failed.run_id, "done": done.run_id, "held": held.run_id}
    assert keys_in_use(database_url) == {place: {"first"} for place in EVERYWHERE}
    return made


async def is_whole(api: Served, made: dict[str, Any]) -> None:
    """Everything is what it was."""
    (stream,) = await api.store.streams.stream_queues()
    assert stream.settings.address == f"redis://:{TEXT}@localhost/0"
    ((_, subscription),) = await api.store.notifications.subscriptions()
    assert subscription.to == Webhook(f"https://example.com/{TEXT}")
    assert (await api.get(f"/v1/payloads/{made['payload']}")).body == TEXT.encode()
    assert (await api.get(f"/v1/jobs/{made['job']}")).json["args"] == {"text": f"{TEXT}-2"}
    failed, done, held = [await api.store.reads.run(1, made[name]) for name in ("failed", "done", "held")]
    assert (failed.error, failed.attempts[0].log_lines) == (LONG, [TEXT])
    assert (done.value, done.arguments) == ("x", {"text": TEXT})
    assert held.message == TEXT and held.logs is not None and TEXT.encode() in held.logs
    (claimed,) = await api.store.leases.held_runs((await api.store.leases.workers())[0].id, [made["held"]])
    assert claimed.checkpoint == json.dumps(TEXT).encode()
    assert await api.service.vault.shown_to_receivers(1, ["crm"]) == [TEXT]
    assert len(await api.service.vault.signing_secrets(1)) == 1
    (letter,) = (await api.get("/v1/dead-letters")).json["items"]
    assert TEXT in letter["error"]


async def finished(api: Served, **options: Any) -> Any:
    seen = (await api.post(STEP, options)).json
    while not seen["done"]:
        seen = (await api.post(STEP)).json
    return seen


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row in a transaction, and one transaction in a step."""
    monkeypatch.setattr(reencryption, "_WINDOW", 1)
    monkeypatch.setattr(reencryption, "_LONGEST", 0.0001)
    monkeypatch.setattr(reencryption, "_PAUSE", 0.001)


async def test_an_old_key_can_be_retired(database_url: str) -> None:
    async with served(database_url) as api:
        made = await filled(api, database_url)
    async with served(database_url, encryption_keys=NEW_FIRST) as api:
        assert (await api.get("/v1/admin/encryption")).json["retirable"] == []
        seen = await finished(api)
        assert (seen["key"], seen["left"], seen["retirable"], seen["round"]) == ("second", {}, ["first"], 2)
        assert seen["resealed"] >= len(EVERYWHERE)
        assert (await api.get("/v1/admin/encryption")).json == seen
        for role in (Role.ADMIN, Role.OPERATOR):
            assert (await api.post(STEP, key=await api.key(role))).status == 403
    assert keys_in_use(database_url) == {place: {"second"} for place in EVERYWHERE}
    async with served(database_url, encryption_keys=(OTHER_KEY,)) as api:
        await is_whole(api, made)


async def test_it_goes_on_where_it_was_killed(
    database_url: str, small_steps: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the worst moment: rows are written, and that they are is not."""
    async with served(database_url) as api:
        made = await filled(api, database_url)
    killed = 0
    for _ in range(4):
        async with served(database_url, encryption_keys=NEW_FIRST) as api:
            for _ in range(3):
                before = (await api.post(STEP)).json
            with monkeypatch.context() as dying:

                async def die(self: Any, state: str) -> None:
                    raise KeyUnknown("killed")

                dying.setattr(type(api.store.reencryption), "keep_reencryption", die)
                assert (await api.post(STEP)).status == 409
                killed += 1
            after = (await api.get("/v1/admin/encryption")).json
            assert (after["table"], after["looked_at"]) == (before["table"], before["looked_at"])
    async with served(database_url, encryption_keys=NEW_FIRST) as api:
        again = (await api.post(STEP)).json
        assert again["looked_at"] > after["looked_at"], "it begins where the last one has come to"
        assert (await finished(api))["retirable"] == ["first"] and killed == 4
        await is_whole(api, made)
    assert names(database_url) == {"second"}


async def test_what_is_written_meanwhile_is_neither_missed_nor_lost(
    database_url: str, small_steps: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(database_url) as old, served_beside(old, database_url) as new:
        made = await filled(old, database_url)
        job_id = parse("job", made["job"])
        plain = type(new.store.reencryption).reseal_rows
        edited: list[UUID] = []

        async def edit_first(self: Any, table: SealedTable, rows: Sequence[Resealed]) -> None:
            """Another request writes the row between its reading and its writing."""
            if table.name == "jobs" and rows[0].key[0] == job_id and not edited:
                answer = await new.ask("PATCH", f"/v1/jobs/{made['job']}", {"args": {"text": "newer"}})
                assert answer.status == 200
                edited.append(job_id)
            await plain(self, table, rows)

        monkeypatch.setattr(type(new.store.reencryption), "reseal_rows", edit_first)
        seen = (await new.post(STEP)).json
        late = 0
        while not seen["done"]:
            if seen["table"] in ("runs", "history") and late < 3:
                # A process that has not heard of the new key yet writes behind the place that was looked at.
                await old.post("/v1/jobs", {"task": "other", "args": {"text": TEXT}, "run_at": "2035-01-01T00:00:00Z"})
                late += 1
            seen = (await new.post(STEP)).json
        assert late == 3 and edited and seen["round"] > 1
        assert (await new.get(f"/v1/jobs/{made['job']}")).json["args"] == {"text": "newer"}
        assert seen["retirable"] == ["first"]
        assert names(database_url) == {"second"}


class served_beside:
    """A second server: beside the first on PostgreSQL. An embedded file has one owner: there it is the same store, with
    the keys in another order."""

    def __init__(self, first: Served, database_url: str) -> None:
        self._first, self._url = first, database_url
        self._other: Any = None

    async def __aenter__(self) -> Served:
        if not self._first.store.embedded:
            self._other = served(self._url, encryption_keys=NEW_FIRST)
            found: Served = await self._other.__aenter__()
            return found
        return _with_new_key_first(self._first)

    async def __aexit__(self, *error: Any) -> None:
        if self._other is not None:
            await self._other.__aexit__(*error)


def _with_new_key_first(api: Served) -> Served:
    """Its writes go with the old key, re-encryption and edits with the new one."""
    sealer = api.service.sealer
    sealer._ciphers[b"second"] = sealer_of_new()._ciphers[b"second"]
    plain = api.ask

    async def ask(method: str, path: str, body: Any = None, **how: Any) -> Any:
        sealer._current = b"second"
        try:
            return await plain(method, path, body, **how)
        finally:
            sealer._current = b"first"

    beside = Served(api.store, api.service, api.url, api.root, api.http)
    beside.ask = ask  # type: ignore[method-assign, assignment]
    return beside


def sealer_of_new() -> Any:
    from duetime.crypto.sealer import Sealer
    from duetime.settings.kinds import decoded_key

    return Sealer([decoded_key(OTHER_KEY)])


async def test_what_cannot_be_opened_keeps_its_key_in_use(database_url: str) -> None:
    async with served(database_url) as api:
        await filled(api, database_url)
    async with served(database_url, encryption_keys=(OTHER_KEY,)) as api:
        seen = await finished(api)
        assert seen["left"]["first"] >= len(EVERYWHERE) and seen["resealed"] == 0 and seen["retirable"] == []
    async with served(database_url, encryption_keys=NEW_FIRST) as api:
        assert (await finished(api))["retirable"] == ["first"]


async def test_the_command_shows_progress_and_what_can_be_retired(database_url: str, small_steps: None) -> None:
    async with served(database_url) as api:
        await filled(api, database_url)
    async with served(database_url, encryption_keys=NEW_FIRST) as api:
        environ = {"DUETIME_URL": api.url, "DUETIME_KEY": api.root, "NO_COLOR": "1", "COLUMNS": "200"}

        async def run(*arguments: str) -> tuple[int, str]:
            done = await asyncio.to_thread(CliRunner().invoke, application, ["encryption", *arguments], env=environ)
            return done.exit_code, done.output

        code, said = await run("re-encrypt")
        assert code == 0 and "round 1, jobs: read" in said and "the key 'first' can be retired" in said, said
        code, said = await run("status", "--json")
        assert json.loads(said)["retirable"] == ["first"]
        code, said = await run("new-key")
        assert code == 0 and len(said.strip().partition(":")[2]) == 44
