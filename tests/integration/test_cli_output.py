"""What commands print about objects: lists in every form, a run, events."""

import asyncio
import csv
import io
import json

import pytest
from typer.testing import CliRunner

from duetime import App, GiveUp
from duetime.cli.main import application
from tests.integration.test_cli_client import Duetime, database_url, duetime, facts, refused
from tests.support.served import Served
from tests.support.working import working

__all__ = ["database_url", "duetime"]

EMPTY = {
    "jobs": "duetime submit TASK",
    "runs": "duetime jobs",
    "dead": "used up its attempts",
    "graphs": "duetime graphs submit FILE",
    "calendars": "duetime calendars put NAME",
    "queues": "created by its first job",
    "breakers": "no breaker is open",
    "workers": "duetime worker MODULE:APP",
    "secrets": "duetime secrets put NAME",
    "subscriptions": "duetime subscriptions set NAME",
    "alerts": "duetime alerts set NAME",
    "checkins": "duetime checkins set NAME",
    "sessions": "duetime login-link",
    "audit": "nothing was changed",
}


async def test_lists_have_one_form(duetime: Duetime) -> None:
    for command, told in EMPTY.items():
        empty = await duetime(command)
        assert (empty.exit_code, empty.stdout, told in empty.stderr) == (0, "", True), (command, empty.output)
        assert (await duetime(command, "--json")).stdout == ""
        header = (await duetime(command, "--csv")).stdout
        assert header.count("\n") == 1 and "," in header, command
    both = await duetime("jobs", "--csv", "--json")
    assert (both.exit_code, json.loads(both.stdout)["field"]) == (2, "--csv")
    facts(await duetime("submit", "later", "--in", "1d", "--name", 'a "quoted", name', "--json"))
    (row,) = csv.DictReader(io.StringIO((await duetime("jobs", "--csv")).stdout))
    (job,) = facts(await duetime("jobs", "--json"))
    assert (row["job_id"], row["status"], row["next_run"]) == (job["job_id"], "PENDING", job["next_run"])
    assert row["name"] == 'a "quoted", name'
    heading, line = (await duetime("jobs")).stdout.splitlines()
    assert heading.split()[:4] == ["job", "id", "task", "status"] and job["job_id"] in line
    wrong = refused(await duetime("jobs", "--status", "DONE"))
    assert "status: 'DONE' is not a valid value (one of ACTIVE, BLOCKED, CANCELLED" in wrong
    assert "role: 'boss' is not a valid value (one of admin, " in refused(await duetime("keys", "create", "boss", "x"))


async def test_a_run_is_shown_with_its_attempts(app: App, duetime: Duetime) -> None:
    @app.task(name="flaky", retries=1, retry={"base": 0.01, "cap": 0.01, "retries": 1})
    def flaky(number: int) -> int:
        from duetime import current_context

        context = current_context()
        context.logger.warning("try %d of \x1b[31m%d", context.attempt, number)
        if context.attempt == 1:
            raise ConnectionError("the bank is closed")
        return number

    @app.task(name="hopeless")
    def hopeless() -> None:
        raise GiveUp("never")

    async with working(app):
        (receipt,) = facts(await duetime("submit", "flaky", "number:=7", "--json"))
        followed = await duetime("runs", "show", receipt["run_id"], "--follow")
        assert followed.exit_code == 0, followed.output
        failed = await duetime("submit", "hopeless", "--wait", "20s")
    for part in (
        "attempt 1  FAILED after",
        "attempt 2  SUCCEEDED after",
        "\n  ConnectionError: the bank is closed\n  Traceback",
    ):
        assert followed.stdout.count(part) == 1, followed.stdout
    assert followed.stdout.splitlines()[-1].endswith("flaky  SUCCEEDED")
    shown = (await duetime("runs", "show", receipt["run_id"])).stdout
    assert shown.splitlines()[0] == f"{receipt['run_id']}  flaky  SUCCEEDED"
    assert "█" in shown and "WARNING try 2 of \\x1b[31m7" in shown and "Traceback" in shown
    assert 'args      {"number":7}' in shown
    assert (failed.exit_code, "what to do  duetime runs retry run_" in failed.stdout) == (1, True), failed.stdout
    assert failed.stdout.endswith("attempt 1  FAILED\n  never\n")


def completed(line: str, shell: str, environ: dict[str, str]) -> str:
    """What the shell is given for the last word of a line."""
    words = line.split(" ")
    if shell == "bash":
        more = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    else:
        more = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    more |= {"_DUETIME_COMPLETE": f"complete_{shell}"}
    return CliRunner().invoke(application, [], prog_name="duetime", env=environ | more).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_shells_complete(served: Served, shell: str) -> None:
    environ = {"DUETIME_URL": served.url, "DUETIME_KEY": await served.key()}
    await served.post("/v1/jobs", {"task": "later", "queue": "mailing", "run_in": "1d"})

    async def of(line: str) -> str:
        return await asyncio.to_thread(completed, line, shell, environ)

    assert "tenants" in await of("duetime te")
    assert "backfill" in await of("duetime jobs ")
    assert "CANCELLED" in await of("duetime jobs list --status CA")
    assert "mailing" in await of("duetime queues pause mai")
    assert "job_" in await of("duetime jobs show ")
    environ |= {"DUETIME_URL": "http://127.0.0.1:1"}
    assert "mailing" not in await of("duetime queues pause mai"), "a server that is not there is no error"


async def test_events_are_followed_with_names(app: App, duetime: Duetime) -> None:
    @app.task(name="greet")
    async def greet() -> None: ...

    async with working(app):
        for form in ((), ("--json",)):
            tail = asyncio.create_task(duetime("tail", "--count", "5", *form))
            while not tail.done():
                await app.submit(greet.bind(), name="hello")
                await asyncio.wait([tail], timeout=0.05)
            lines = tail.result().stdout.splitlines()
            assert len(lines) == 5, lines
            if form:
                kinds = {json.loads(line)["kind"] for line in lines}
                assert kinds <= {"SUBMITTED", "FIRED", "STARTED", "SUCCEEDED"}
            else:
                assert all(" greet " in line for line in lines), lines
                assert any(" greet (hello) job_" in line for line in lines), lines


@pytest.mark.parametrize(
    ("environ", "coloured"), [({"FORCE_COLOR": "1"}, True), ({"NO_COLOR": "1"}, False), ({}, False)]
)
def test_colours(environ: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    from duetime.cli.tables import state

    for name in ("FORCE_COLOR", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    console = Console(file=io.StringIO())
    console.print(state("FAILED"))
    assert ("\x1b[31m" in console.file.getvalue()) is coloured  # type: ignore[attr-defined]
