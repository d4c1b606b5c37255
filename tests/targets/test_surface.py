"""Targets through the app, the client and the commands; and edits of them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from duetime import App, AsyncClient, InvalidInput
from duetime.cli.main import application
from duetime.model.target import HttpTarget
from tests.support.command import Command
from tests.support.receiver import Receiver
from tests.support.targeting import Targeting, targeting
from tests.support.working import quick_settings

URL = "https://shop.example.com/hook"


async def test_an_app_submits_targets(quiet_url: str) -> None:
    async with App(settings=quick_settings(quiet_url)) as app:
        for receipt in (
            await app.submit({"type": "http", "url": URL, "body": {"order": 7}}, run_in="1h", queue="mail", retries=1),
            await app.submit({"type": "http", "url": URL, "body": {"order": 7}}, run_in="1h", queue="mail", retries=1),
            await app.schedule(HttpTarget(url=URL, body={"order": 7}), every="1h", queue="mail", retries=1),
        ):
            job = await app.job(receipt)
            assert (job.task, job.queue, job.options.retry.retries) == ("duetime.http/shop.example.com", "mail", 1)
            assert json.loads(job.args) == {"type": "http", "url": URL, "body": {"order": 7}}
        first = await app.submit({"type": "http", "url": URL, "body": {"a": 1}}, run_in="1h", key="one")
        again = await app.submit({"type": "http", "url": URL, "body": {"a": 1}}, run_in="1h", key="one")
        assert (again.job_id, again.created) == (first.job_id, False)


@pytest.mark.parametrize(
    ("target", "field"),
    [
        ({"type": "http", "url": "http://127.0.0.1/"}, "target.url"),
        ({"type": "http", "url": "http://10.0.0.1/"}, "target.url"),
        ({"type": "http"}, "target"),
        ({"type": "smoke", "url": URL}, "target"),
        ({"type": "http", "url": URL, "colour": 1}, "target"),
        ({"type": "http", "url": URL, "finish_within": "0s"}, "target.finish_within"),
        ({"type": "shell", "command": "rm"}, "target.command"),
        (None, "task"),
    ],
)
async def test_an_app_is_refused_what_the_api_refuses(quiet_url: str, target: Any, field: str) -> None:
    async with App(settings=quick_settings(quiet_url)) as app:
        with pytest.raises(InvalidInput) as refused:
            await app.submit(target)
        assert refused.value.field == field
        with pytest.raises(InvalidInput, match="no arguments"):
            await app.submit({"type": "http", "url": URL}, {"a": 1})  # type: ignore[call-overload]


def test_reserved_names_are_not_for_tasks() -> None:
    app = App()
    with pytest.raises(InvalidInput):
        app.task(name="duetime.http")(lambda: None)


async def test_a_client_and_an_edit(targets: Targeting, receiver: Receiver) -> None:
    async with AsyncClient(targets.api.url, targets.api.root) as client:
        await client.put_secret("token", "s3cret-value", hosts=["shop.example.com"])
        assert [each.name for each in (await client.list_secrets()).items] == ["token"]
        receipt = await client.create_job(target=HttpTarget(url=URL, headers={"X-A": "1"}), every="1h")
        job = await client.get_job(receipt.job_id)
        assert (job.task, job.args) == ("duetime.http/shop.example.com", {})
        assert job.target == HttpTarget(url=URL, headers={"X-A": "1"})
        changed = await client.change_job(receipt.job_id, target={"type": "http", "url": receiver.url, "body": "hi"})
        assert changed.task == f"duetime.http/127.0.0.1:{receiver.port}"
        await client.trigger_job(receipt.job_id)
        assert (await receiver.got(1))[0].body == b"hi"
        for fields, field in (
            ({"target": {"type": "http", "url": "http://10.0.0.1/"}}, "target.url"),
            ({"args": {"a": 1}}, "args"),
        ):
            with pytest.raises(InvalidInput) as refused:
                await client.change_job(receipt.job_id, **fields)
            assert refused.value.field == field
        task = await client.create_job("greet", run_in="1h")
        with pytest.raises(InvalidInput):
            await client.change_job(task.job_id, target={"type": "http", "url": URL})
        made = await client.rotate_signing_secret(overlap="1h")
        assert made.secret.startswith("whsec_")


async def test_commands(quiet_url: str) -> None:
    async with targeting(quiet_url, worker=False) as targets:
        environ = {"DUETIME_URL": targets.api.url, "DUETIME_KEY": targets.api.root, "NO_COLOR": "1"}

        async def job(*arguments: str) -> Any:
            done = await asyncio.to_thread(CliRunner().invoke, application, [*arguments, "--json"], env=environ)
            assert done.exit_code == 0, done.output
            return (await targets.api.get(f"/v1/jobs/{json.loads(done.stdout)['job_id']}")).json

        target = json.dumps({"type": "http", "url": URL, "method": "GET"})
        found = await job("submit", "order:=7", "to=you", "--callback-url", URL, "--in", "1h")
        assert found["target"] == {"type": "http", "url": URL, "body": {"order": 7, "to": "you"}}
        assert (await job("submit", "--target", target, "--in", "1h"))["target"]["method"] == "GET"
        found = await job("schedule", "every 15 minutes", "a=b", "--callback-url", URL)
        assert (found["target"]["body"], found["schedule"]["kind"]) == ({"a": "b"}, "every")
        assert (await job("schedule", "0 9 * * *", "--target", target))["schedule"]["kind"] == "cron"


async def test_commands_for_secrets(quiet_url: str) -> None:
    async with targeting(quiet_url, worker=False) as targets:
        environ = {"DUETIME_URL": targets.api.url, "DUETIME_KEY": targets.api.root, "NO_COLOR": "1"}

        async def run(*arguments: str, given: str | None = None) -> tuple[int, str]:
            called = [*arguments, "--json"]
            done = await asyncio.to_thread(CliRunner().invoke, application, called, input=given, env=environ)
            return done.exit_code, done.output

        put = ("secrets", "put", "crm", "--host", "api.example.com", "--host", "*.example.com:8443", "--role", "admin")
        code, said = await run(*put, given="s3cret-value\n")
        assert code == 0 and "s3cret" not in said, said
        code, said = await run("secrets")
        assert (code, json.loads(said)["hosts"]) == (0, ["api.example.com", "*.example.com:8443"])
        assert await targets.api.service.vault.shown_to_receivers(1, ["crm"]) == ["s3cret-value"]
        code, said = await run("secrets", "put", "crm", given="s3cret-value")
        assert code == 2 and "--host" in said
        assert (await run("secrets", "delete", "crm"))[0] == 0


async def test_up_calls_targets_and_an_app_in_another_process_submits_them(tmp_path: Path, receiver: Receiver) -> None:
    data = tmp_path / "data"
    config = tmp_path / "duetime.toml"
    config.write_text('allowed_networks = ["127.0.0.0/8"]\n')
    with Command(tmp_path, "up", "--config", str(config), "--data-dir", str(data), "--port", "0", "--json") as up:
        await asyncio.to_thread(up.until, lambda up: '"up"' in up.stdout)
        async with App(data_dir=data) as app:
            # This process knows nothing of what may be called: the server does.
            receipt = await app.submit({"type": "http", "url": receiver.url, "body": {"order": 7}})
            (request,) = await receiver.got(1)
            assert request.json == {"order": 7}
            assert (await app.wait(receipt, "20s")).value["status"] == 200
            with pytest.raises(InvalidInput):
                await app.submit({"type": "http", "url": "http://10.0.0.1/"})
        assert await asyncio.to_thread(up.stop) == 0
