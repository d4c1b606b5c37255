"""What `duetime doctor` finds in a real database."""

from datetime import timedelta
from uuid import uuid4

import msgspec
import pytest

from duetime import App
from duetime.model.carried import StreamSettings
from duetime.model.job import DEFAULT_TENANT
from duetime.node.diagnosis import Finding, diagnose
from duetime.settings import Settings
from duetime.store.address import store_for
from tests.support.working import quick_settings

_OTHER = "other:MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI="


async def findings(settings: Settings) -> dict[str, Finding]:
    return {each.check: each async for each in diagnose(settings)}


async def test_what_needs_work_is_found(migrated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.engine.watcher.GRACE", timedelta())
    settings = quick_settings(migrated)
    app = App(settings=settings)

    @app.task(name="lonely", queue="mail")
    async def lonely() -> None: ...

    await lonely.submit()
    store = await app.store()
    await store.streams.set_stream(DEFAULT_TENANT, "fast", StreamSettings("redis://127.0.0.1:1/0"))
    found = await findings(settings)
    await app.close()
    fine = {"database", "connections", "pooler", "schema", "clock", "encryption"}
    assert {check for check, each in found.items() if each.status == "ok"} == fine, found
    assert "fsync is off" in found["durability"].found or "full_page_writes" in found["durability"].found
    assert (found["vacuum"].status, found["vacuum"].remedy) == ("problem", "set autovacuum = on")
    assert found["database"].found.startswith("PostgreSQL ") and found["workers"].status == "warning"
    assert found["scheduler"].status == "warning" and "no server has ever been up" in found["scheduler"].found
    assert "duetime server" in str(found["scheduler"].remedy)
    assert found["tasks"].status == "problem" and "lonely are due in the queue mail" in found["tasks"].found
    assert "--queue mail" in str(found["tasks"].remedy)
    assert found["streams"].status == "problem" and "the queue fast at redis://127.0.0.1:1" in found["streams"].found
    assert "duetime queues set" in str(found["streams"].remedy)


async def test_a_key_that_is_missing_here(migrated: str) -> None:
    settings = quick_settings(migrated)
    store = store_for(settings)
    await store.open()
    assert store.sealer is not None
    sealed = store.sealer.seal(b"s" * 32, belongs_to="a test")
    await store.secrets.add_signing_secret(DEFAULT_TENANT, uuid4(), sealed, overlap=None)
    await store.close()
    assert (await findings(settings))["encryption"].status == "ok"
    other = await findings(msgspec.structs.replace(settings, encryption_keys=(_OTHER,)))
    assert (other["encryption"].status, "need the key first" in other["encryption"].found) == ("problem", True)
    none = (await findings(msgspec.structs.replace(settings, encryption_keys=())))["encryption"]
    assert (none.status, "duetime encryption new-key" in str(none.remedy)) == ("warning", True)


async def test_settings_of_the_server_that_lose_data(migrated: str) -> None:
    options = "options=-c%20synchronous_commit%3Doff%20-c%20statement_timeout%3D5s"
    options += "%20-c%20default_transaction_isolation%3Dserializable"
    risky = f"{migrated}{'&' if '?' in migrated else '?'}{options}"
    found = await findings(quick_settings(risky))
    assert (found["durability"].status, "synchronous_commit is off" in found["durability"].found) == ("warning", True)
    assert found["timeouts"].status == "warning"
    assert (found["isolation"].status, "read committed" in str(found["isolation"].remedy)) == ("problem", True)
