"""Data keys that a key provider wraps: in a file, or behind HTTP."""

import os
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from duetime.errors import SettingsError
from duetime.settings import Settings, load
from tests.api.test_reencryption import STEP, finished, names
from tests.support.dumps import dumped
from tests.support.key_service import TOKEN, KeyService, key_service
from tests.support.served import ENCRYPTION, Served, served

TEXT = "4111-1111"


@pytest.fixture
async def keys() -> AsyncIterator[KeyService]:
    async with key_service() as found:
        yield found


def over_http(keys: KeyService, key: str = "kek-1", **more: Any) -> dict[str, Any]:
    given = {"key_provider": keys.url, "key_provider_key": key, "key_provider_token": TOKEN, "encryption_keys": ()}
    return given | more


async def encrypted_job(api: Served) -> str:
    assert (await api.ask("PATCH", "/v1/admin/tenants/default", {"encrypt_args": True})).status == 200
    answer = await api.post("/v1/jobs", {"task": "t", "args": {"text": TEXT}, "every": "1h"})
    assert answer.status == 201, answer.json
    job_id: str = answer.json["job_id"]
    return job_id


async def text_of(api: Served, job_id: str) -> Any:
    return (await api.get(f"/v1/jobs/{job_id}")).json["args"].get("text")


async def test_data_keys_are_wrapped_by_a_service_and_kept_in_memory(database_url: str, keys: KeyService) -> None:
    async with served(database_url, **over_http(keys)) as api:
        jobs = [await encrypted_job(api) for _ in range(5)]
        payload = (await api.ask("POST", "/v1/payloads", raw=b"bytes")).json["payload_ref"]
        assert (keys.count("wrap"), keys.count("unwrap")) == (1, 0)
    (name,) = names(database_url)
    assert name.startswith("dk-")
    assert keys.asked[0][1]["key_id"] == "kek-1"
    plaintext = keys.asked[0][1]["plaintext"]
    assert not any(plaintext.encode() in value for _, _, value in dumped(database_url)), "it is stored wrapped only"
    keys.asked.clear()
    async with served(database_url, **over_http(keys)) as api:
        assert [await text_of(api, job_id) for job_id in jobs] == [TEXT] * 5
        assert (await api.get(f"/v1/payloads/{payload}")).body == b"bytes"
        await encrypted_job(api)
        assert [what for what, _ in keys.asked] == ["unwrap"], "once for a process"
        keys.status = 503
        assert await text_of(api, await encrypted_job(api)) == TEXT, "what is known is used while the service is away"
    assert names(database_url) == {name}


async def test_a_service_that_is_away_or_says_no(database_url: str, keys: KeyService) -> None:
    async with served(database_url, **over_http(keys)) as api:
        await encrypted_job(api)
        payload = (await api.ask("POST", "/v1/payloads", raw=b"bytes")).json["payload_ref"]
    keys.status = 503
    async with served(database_url, **over_http(keys)) as api:
        for answer in (await api.get(f"/v1/payloads/{payload}"), await api.ask("POST", "/v1/payloads", raw=b"x")):
            assert (answer.status, answer.code) == (503, "unavailable"), "it may be back in a moment"
        keys.status = None
        assert (await api.get(f"/v1/payloads/{payload}")).status == 200
    for wrong in ({"key_provider_token": "another"}, {"key_provider_key": "kek-9", "key_provider_token": "another"}):
        async with served(database_url, **(over_http(keys) | wrong)) as api:
            answer = await api.ask("POST", "/v1/payloads", raw=b"x")
            assert (answer.status, answer.code) == (409, "encryption_key_missing")
            assert "answered 401" in answer.json["detail"] and "kek-1" in answer.json["detail"]
            assert "key_provider_token" in answer.json["remedy"]


async def test_keys_of_the_settings_give_way_to_a_provider(database_url: str, keys: KeyService) -> None:
    async with served(database_url) as api:
        job_id = await encrypted_job(api)
    async with served(database_url, **over_http(keys, encryption_keys=(ENCRYPTION,))) as api:
        assert await text_of(api, job_id) == TEXT
        seen = await finished(api)
        assert seen["retirable"] == ["first"] and seen["wrapping_keys"] == ["kek-1"]
    async with served(database_url, **over_http(keys)) as api:
        assert await text_of(api, job_id) == TEXT


async def test_a_wrapping_key_is_retired(database_url: str, keys: KeyService) -> None:
    async with served(database_url, **over_http(keys)) as api:
        job_id = await encrypted_job(api)
    (before,) = names(database_url)
    async with served(database_url, **over_http(keys, "kek-2")) as api:
        keys.asked.clear()
        assert (await finished(api))["wrapping_keys"] == ["kek-2"]
        assert keys.count("wrap") == 1, "once, and not with every step"
        assert names(database_url) == {before}, "the data key is wrapped anew, and goes on"
        seen = await finished(api, fresh_data_key=True)
        assert seen["retirable"] == [before] and names(database_url) == {seen["key"]} != {before}
    del keys.keys["kek-1"]
    async with served(database_url, **over_http(keys, "kek-2")) as api:
        assert await text_of(api, job_id) == TEXT


async def test_keys_in_a_file(database_url: str, tmp_path: Path) -> None:
    file = tmp_path / "wrapping-keys"
    lines = [f"{name}:{b64encode(os.urandom(32)).decode()}" for name in ("old", "new")]
    file.write_text(f"# what wraps data keys\n{lines[0]}\n")
    given: dict[str, Any] = {"key_provider": f"file:{file}", "encryption_keys": ()}
    async with served(database_url, **given) as api:
        job_id = await encrypted_job(api)
        file.write_text(f"{lines[1]}\n{lines[0]}\n")
        assert (await finished(api))["wrapping_keys"] == ["new"], "the file is read again when it is needed"
        file.write_text(f"{lines[1]}\n")
    async with served(database_url, **given) as api:
        assert await text_of(api, job_id) == TEXT
    file.write_text(f"{lines[0]}\n")
    async with served(database_url, **given) as api:
        answer = await api.post(STEP)
        assert (answer.status, answer.code) == (409, "encryption_key_missing") and "'new'" in answer.json["detail"]
        job = (await api.get(f"/v1/jobs/{job_id}")).json
        assert job["args"] == {} and "dk-" in job["args_problem"]


@pytest.mark.parametrize(
    "given",
    ["http://kms.example.com/v1", "https://", "file:", "ftp://kms.example.com", "https://me:pw@kms.example.com"],
)
def test_a_provider_that_cannot_be_used(given: str) -> None:
    with pytest.raises(SettingsError, match="key_provider"):
        load(None, {"DUETIME_KEY_PROVIDER": given}, {})


def test_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    from duetime.store.address import store_for

    for text in (None, "", "no key"):
        if text is not None:
            (tmp_path / "keys").write_text(text)
        with pytest.raises(SettingsError, match="key_provider"):
            store_for(Settings(data_dir=tmp_path, key_provider=f"file:{tmp_path / 'keys'}"))
