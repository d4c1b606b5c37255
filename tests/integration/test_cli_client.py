"""Commands that talk to a server."""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from typer.main import get_command

from duetime import App, AsyncClient, ServerUnavailable
from duetime.cli.main import application
from duetime.model.access import Role
from duetime.model.breaker import BreakerPolicy, Tally
from duetime.model.defaults import Defaults
from duetime.model.job import DEFAULT_TENANT
from tests.contract.hands import hand
from tests.support.command import Command, only_line, run
from tests.support.served import Served
from tests.support.signing import ISSUER, pem, token
from tests.support.waiting import eventually
from tests.support.working import working

Duetime = Callable[..., Awaitable[Result]]
COMMAND = get_command(application)  # making it takes longer than most commands
_LIMITS = ("concurrency_key", "concurrency", "rate_key", "rate", "warn_after")


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """What commands print does not depend on the store, so one will do."""
    return f"sqlite:///{tmp_path / 'duetime.db'}"


@pytest.fixture
async def duetime(served: Served) -> Duetime:
    """Runs a command against the server, in a thread; returns how it ended."""
    environ = {"DUETIME_URL": served.url, "DUETIME_KEY": await served.key(), "COLUMNS": "250", "NO_COLOR": "1"}

    async def command(*arguments: str, **more: Any) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, COMMAND, arguments, env=environ, **more)

    return command


def facts(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def refused(result: Result) -> str:
    """What wrong usage is told: one line, and neither a traceback nor an answer."""
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    (line,) = result.stderr.splitlines()
    return line


async def until_dead(app: App, count: int) -> None:
    store = await app.store()

    async def are_dead() -> bool:
        return (await store.reads.counts()).dead_letters == count

    await eventually(are_dead)


async def test_what_dies_again_is_not_replayed_again(
    app: App, duetime: Duetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.cli.runs.AT_ONCE", 1)
    tried: list[int] = []

    @app.task(name="broken", retries=0)
    async def broken(number: int) -> None:
        tried.append(number)
        if len(tried) < 60:  # for ever, as far as this test can see
            raise ValueError("the cause is still there")

    async with working(app):
        for number in range(10):
            await app.submit(broken.bind(number=number))
        await until_dead(app, 10)
        assert facts(await duetime("dead", "replay", "--all", "--rate", "10000", "--json")) == [{"replayed": 10}]
        await eventually(lambda: len(tried) == 20)
        await until_dead(app, 10)
    assert sorted(tried) == sorted([*range(10), *range(10)])
    assert facts(await duetime("dead", "discard", "--all", "--json")) == [{"discarded": 10}]


async def test_a_replay_with_a_key_is_made_once(app: App, duetime: Duetime) -> None:
    @app.task(name="broken", retries=0)
    async def broken() -> None:
        raise ValueError("the cause is still there")

    async with working(app):
        await app.submit_many([broken.bind()] * 3)
        await until_dead(app, 3)
    replay = ("dead", "replay", "--task", "broken", "--idempotency-key", "monday", "--json")
    assert facts(await duetime(*replay)) == [{"replayed": 3}]
    async with working(app):
        await until_dead(app, 3)
    assert facts(await duetime(*replay)) == [{"replayed": 3}], "the first answer: nothing was replayed again"
    assert len(facts(await duetime("dead", "list", "--json"))) == 3
    other = await duetime("dead", "replay", "--all", "--idempotency-key", "monday", "--json")
    assert other.exit_code == 1 and "another request" in other.stdout


async def test_a_replay_that_would_last_for_days_stops_and_says_so(
    app: App, duetime: Duetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.cli.runs.AT_ONCE", 100)

    @app.task(name="broken", retries=0)
    async def broken() -> None:
        raise ValueError("the cause is still there")

    async with working(app):
        await app.submit_many([broken.bind()] * 150)
        await until_dead(app, 150)
    stopped = await duetime("dead", "replay", "--all", "--rate", "0.001", "--json")
    assert stopped.exit_code == 1
    told, problem = (json.loads(line) for line in stopped.stdout.splitlines())
    assert told == {"replayed": 100}
    assert "more than a day" in problem["message"] and "--rate" in problem["remedy"]
    assert len(facts(await duetime("dead", "list", "--limit", "200", "--json"))) == 50


async def test_a_job_by_hand(app: App, duetime: Duetime) -> None:
    @app.task(name="greet")
    async def greet(to: str, times: int = 1) -> str:
        if times == 0:
            raise ValueError("no greeting")
        return " ".join(["hello", to] * times)

    async with working(app):
        (run,) = facts(await duetime("submit", "greet", "to=you", "times:=2", "--wait", "20s", "--json"))
        assert (run["status"], run["result"]) == ("SUCCEEDED", "hello you hello you")
        failed = await duetime("submit", "greet", "to=you", "times:=0", "--retries", "0", "--wait", "20s", "--json")
        assert failed.exit_code == 1
        refused = await duetime("submit", "greet", "to=you", "times=two")
        assert (refused.exit_code, "args.times: expected int, got str" in refused.stderr) == (2, True), refused.stderr
        for command in (("submit", "greet"), ("schedule", "greet", "every 1h")):
            refused = await duetime(*command, "to=you", "times=2")
            assert "args.times: expected int, got str (as JSON: times:=2)" in refused.stderr, refused.stderr
        (receipt,) = facts(await duetime("schedule", "greet", "every 1h", "to=you", "--json"))
        refused = await duetime("jobs", "edit", receipt["job_id"], "to=you", "times=2")
        assert "(as JSON: times:=2)" in refused.stderr, refused.stderr
        facts(await duetime("jobs", "delete", receipt["job_id"], "--yes", "--json"))
        (listed,) = facts(await duetime("runs", "list", "--status", "FAILED", "--json"))
        assert listed["task"] == "greet"
        (letter,) = facts(await duetime("dead", "list", "--json"))
        assert letter["run_id"] == listed["run_id"]
        (shown,) = facts(await duetime("runs", "show", listed["run_id"], "--json"))
        assert shown["attempts"][0]["status"] == "FAILED"
        table = await duetime("jobs", "--task", "greet")
        assert [line.split()[2] for line in table.stdout.splitlines()[1:]] == ["FAILED", "SUCCEEDED"]
        assert (await duetime("workers")).stdout.count("greet") == 1


async def test_a_job_by_hand_gets_what_its_task_says(app: App, duetime: Duetime) -> None:
    @app.task(name="charge", delivery="at_most_once", timeout="5s", queue="billing", priority="HIGH")
    async def charge(customer: int) -> int:
        return customer

    async with working(app):
        await eventually(lambda: _told(app))
        (run,) = facts(await duetime("submit", "charge", "customer:=7", "--wait", "20s", "--json"))
        assert (run["status"], run["queue"]) == ("SUCCEEDED", "billing")
        (job,) = facts(await duetime("jobs", "show", run["job_id"], "--json"))
        wanted = {"queue": "billing", "priority": "HIGH", "timeout": 5.0, "delivery": "at_most_once"}
        assert job.items() >= wanted.items() and job["retry"]["retries"] == 0
        (receipt,) = facts(await duetime("submit", "charge", "customer:=7", "--queue", "default", "--json"))
        (job,) = facts(await duetime("jobs", "show", receipt["job_id"], "--json"))
        assert (job["queue"], job["delivery"]) == ("default", "at_most_once")


async def _told(app: App) -> dict[str, Defaults]:
    return await (await app.store()).queues.task_defaults(DEFAULT_TENANT)


async def test_a_schedule_is_steered(duetime: Duetime) -> None:
    (receipt,) = facts(
        await duetime("schedule", "report", "every weekday at 9am", "--tz", "Europe/Berlin", "--name", "r", "--json")
    )
    job_id = receipt["job_id"]
    for command, status in (("pause", "PAUSED"), ("resume", "ACTIVE"), ("cancel", "CANCELLED")):
        (answer,) = facts(await duetime("jobs", command, job_id, "--json"))
        assert answer == {"job_id": job_id, "status": status}
    assert "CANCELLED" in (await duetime("jobs", "show", job_id)).stdout


async def test_a_job_is_named_by_its_key(duetime: Duetime) -> None:
    scheduled = ("schedule", "report", "every weekday at 9am", "--job-key", "morning-tea", "--json")
    (first,) = facts(await duetime(*scheduled))
    facts(await duetime("jobs", "cancel", "morning-tea", "--json"))
    (second,) = facts(await duetime(*scheduled))
    assert first["job_id"] != second["job_id"]
    for command in ("show", "status", "pause", "resume"):
        (answer,) = facts(await duetime("jobs", command, "morning-tea", "--json"))
        assert answer["job_id"] == second["job_id"]
    facts(await duetime("jobs", "edit", "morning-tea", "--name", "tea", "--json"))
    (run,) = facts(await duetime("jobs", "trigger", "morning-tea", "--json"))
    assert [each["run_id"] for each in facts(await duetime("runs", "list", "--job", "morning-tea", "--json"))] == [
        run["run_id"]
    ]
    assert facts(await duetime("dead", "list", "--job", "morning-tea", "--json")) == []
    facts(await duetime("jobs", "delete", "morning-tea", "--yes", "--json"))


async def test_an_id_of_another_kind_is_answered_with_the_command_for_it(duetime: Duetime) -> None:
    (receipt,) = facts(await duetime("submit", "report", "--json"))
    job_id = receipt["job_id"]
    for command in (("runs", "show"), ("runs", "retry"), ("dead", "replay")):
        told = refused(await duetime(*command, job_id))
        assert f"{job_id} is the id of a job (duetime jobs show {job_id} shows it" in told
        assert f"duetime runs list --job {job_id}" in told
    (run,) = facts(await duetime("runs", "list", "--json"))
    assert f"(duetime runs show {run['run_id']} shows it" in refused(await duetime("jobs", "show", run["run_id"]))
    missing = await duetime("jobs", "show", "evening-tea")
    assert missing.exit_code == 1
    assert "no job with the id or key evening-tea (search for it: duetime jobs list evening-tea)" in missing.stderr


async def test_trends_say_how_old_they_are(duetime: Duetime) -> None:
    trends = await duetime("trends")
    told = "nothing ended in this time; the newest figures are up to two minutes old\n"
    assert (trends.exit_code, trends.stdout, trends.stderr) == (0, "", told)


async def test_a_job_is_edited(duetime: Duetime) -> None:
    facts(await duetime("calendars", "put", "holidays", "2030-12-25", "--json"))
    days = ("--not-on", "sun", "--not-on", "2030-12-24", "--not-on", "holidays")
    (receipt,) = facts(await duetime("schedule", "report", "every 1h", "to=you", "--timeout", "5s", *days, "--json"))
    job_id = receipt["job_id"]
    (job,) = facts(await duetime("jobs", "show", job_id, "--json"))
    left_out = {"dates": ["2030-12-24"], "weekdays": ["SUN"], "calendars": ["holidays"], "instead": "skip"}
    assert job["schedule"]["exclude"] == left_out
    when = ("--when", "every weekday at 9am", "--tz", "Asia/Tokyo", "--until", "2030-01-01T00:00:00Z")
    what = ("to=me", "--owner", "u1", "--tag", "a", "--payload", "s3://b/1", "--version", "1")
    (job,) = facts(await duetime("jobs", "edit", job_id, *when, *what, "--json"))
    assert (job["args"], job["owner"], job["tags"], job["payload_ref"]) == ({"to": "me"}, "u1", ["a"], "s3://b/1")
    assert (job["schedule"]["words"], job["schedule"]["exclude"]) == ("every weekday at 9am", left_out)
    assert (job["schedule"]["end_at"], job["timeout"], job["version"]) == ("2030-01-01T00:00:00Z", 5.0, 2)
    named = ("--without", "owner", "--without", "payload", "--without", "tags", "--without", "timeout")
    (job,) = facts(await duetime("jobs", "edit", job_id, *named, "--json"))
    assert (job["owner"], job["payload_ref"], job["tags"], job["timeout"]) == (None, None, [], None)
    assert "u1" not in (await duetime("jobs", "edit", job_id, "--priority", "HIGH")).stdout
    limits = (
        "--concurrency-key",
        "c1",
        "--concurrency",
        "3",
        "--rate-key",
        "mail",
        "--rate",
        "9/m",
        "--warn-after",
        "5s",
    )
    (job,) = facts(await duetime("jobs", "edit", job_id, *limits, "--json"))
    assert [job[name] for name in _LIMITS] == ["c1", 3, "mail", "9/m", 5.0]
    named = ("--without", "concurrency-key", "--without", "rate", "--without", "warn-after")
    (job,) = facts(await duetime("jobs", "edit", job_id, *named, "--json"))
    assert [job[name] for name in _LIMITS] == [None, 1, None, None, None]
    stale = await duetime("jobs", "edit", job_id, "--priority", "LOW", "--version", "1")
    assert (stale.exit_code, "not 1" in stale.stderr) == (1, True)
    (job,) = facts(await duetime("jobs", "edit", job_id, "--cron", "5 9 * * *", "--without", "not-on", "--json"))
    kept = {name: job["schedule"][name] for name in ("exact", "tz", "end_at", "exclude")}
    assert kept == {"exact": "cron 5 9 * * *", "tz": "Asia/Tokyo", "end_at": "2030-01-01T00:00:00Z", "exclude": None}
    (job,) = facts(await duetime("jobs", "edit", job_id, "--tz", "UTC", "--without", "until", "--json"))
    assert (job["schedule"]["exact"], job["schedule"]["tz"], job["schedule"]["end_at"]) == (
        "cron 5 9 * * *",
        "UTC",
        None,
    )
    for wrong in ((), ("--without", "task"), ("--day-match", "both")):
        assert (await duetime("jobs", "edit", job_id, *wrong)).exit_code == 2, wrong


async def test_calendars(duetime: Duetime, tmp_path: Path) -> None:
    file = tmp_path / "days.txt"
    file.write_text("2030-12-25  # Christmas\n\n# and\n2031-01-01\n")
    dates = ["2030-12-25", "2030-12-26", "2031-01-01"]
    (calendar,) = facts(await duetime("calendars", "put", "holidays", "2030-12-26", "--file", str(file), "--json"))
    assert calendar == {"name": "holidays", "dates": dates, "version": 1, "jobs": 0}
    assert facts(await duetime("calendars", "--json")) == [calendar]
    row = (await duetime("calendars")).stdout.splitlines()[1]
    assert row.split() == ["holidays", "3", "2030-12-25", "2031-01-01", "0"]
    assert "2030-12-26" in (await duetime("calendars", "show", "holidays")).stdout
    for wrong in ((), ("Christmas",), ("2030-12-25", "--empty")):
        assert (await duetime("calendars", "put", "holidays", *wrong)).exit_code == 2, wrong
    facts(await duetime("calendars", "put", "holidays", "--empty", "--json"))
    facts(await duetime("schedule", "report", "hourly", "--not-on", "holidays", "--json"))
    used = await duetime("calendars", "delete", "holidays")
    assert (used.exit_code, "holidays" in used.stderr) == (1, True)
    facts(await duetime("calendars", "put", "other", "2030-01-01", "--json"))
    assert facts(await duetime("calendars", "delete", "other", "--json")) == [{"deleted": True}]


async def test_the_audit_log(duetime: Duetime) -> None:
    facts(await duetime("tenants", "create", "acme", "--json"))
    facts(await duetime("keys", "create", "viewer", "board", "--tenant", "acme", "--json"))
    facts(await duetime("calendars", "put", "holidays", "2030-12-25", "--json"))
    (entry,) = facts(await duetime("audit", "--limit", "1", "--json"))
    assert (entry["action"], entry["object"], entry["detail"]) == ("calendars.set", "holidays", "1 days")
    of_acme = facts(await duetime("audit", "--tenant", "acme", "--json"))
    assert [entry["action"] for entry in of_acme] == ["keys.create", "tenants.create"]
    table = (await duetime("audit", "--all")).stdout
    assert table.index("calendars.set") < table.index("keys.create") < table.index("tenants.create")


async def test_a_crontab_becomes_jobs_once(duetime: Duetime, tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_text("CRON_TZ=Europe/Berlin\n0 9 * * 1-5 report --daily\n@reboot no\n99 * * * * never\n")
    plan = await duetime("import-crontab", str(file), input="n\n")
    assert "no worker has the task shell" in plan.stderr and "this machine's zone" not in plan.stderr
    assert "report --daily" in plan.stdout
    assert "Create 1 jobs?" in plan.stdout
    assert "line 3 is skipped" in plan.stderr
    assert "line 4 is skipped" in plan.stderr
    assert facts(await duetime("jobs", "list", "--json")) == [], "a plan stores nothing"
    for stored in (1, 0):
        answer = facts(await duetime("import-crontab", str(file), "--yes", "--json"))[-1]
        assert answer == {"stored": stored, "known": 1 - stored, "left_out": 2, "has_worker": False}
    (job,) = facts(await duetime("jobs", "list", "--json"))
    assert (job["task"], job["name"], job["schedule"]["tz"]) == ("shell", "report --daily", "Europe/Berlin")


async def test_a_crontab_goes_by_the_clock_of_its_machine(
    app: App, duetime: Duetime, tmp_path: Path, clock_of: Callable[[str], None]
) -> None:
    @app.task(name="shell")
    async def shell(command: str) -> None: ...

    clock_of("America/New_York")
    file = tmp_path / "crontab"
    file.write_text("0 9 * * * report\n")
    async with working(app):
        plan = await duetime("import-crontab", str(file), input="n\n")
        assert "this machine's zone, America/New_York; --tz names another" in plan.stderr
        assert "no worker has" not in plan.stderr and "America/New_York" in plan.stdout
        assert re.search(r"\d 09:00:00-0[45]:00", plan.stdout), "the next run, at nine there"
        named = await duetime("import-crontab", str(file), "--tz", "Asia/Tokyo", "--json")
        assert "machine" not in named.stderr and facts(named)[0]["tz"] == "Asia/Tokyo"
        assert facts(await duetime("import-crontab", str(file), "--yes", "--json"))[-1]["has_worker"] is True
    (job,) = facts(await duetime("jobs", "list", "--json"))
    assert job["schedule"]["tz"] == "America/New_York"


async def test_a_file_of_jobs(duetime: Duetime, tmp_path: Path) -> None:
    file = tmp_path / "jobs.ndjson"
    file.write_text("".join(json.dumps({"task": "t", "run_in": "1d", "args": {"n": n}}) + "\n" for n in range(1500)))
    assert facts(await duetime("submit", "--file", str(file), "--json")) == [{"stored": 1500}]


async def test_a_length_that_cannot_be_waited_creates_nothing(duetime: Duetime) -> None:
    assert "wait: '5x' is not a duration" in refused(await duetime("submit", "greet", "--wait", "5x"))
    assert facts(await duetime("jobs", "list", "--json")) == []


async def test_who_waits_is_told_the_job_when_the_server_goes(
    duetime: Duetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(*_: object) -> None:
        raise ServerUnavailable("it cannot be reached")

    monkeypatch.setattr(AsyncClient, "wait", gone)
    left = await duetime("submit", "greet", "--wait", "5s")
    (job,) = facts(await duetime("jobs", "list", "--json"))
    assert (left.exit_code, f"{job['job_id']} is stored" in left.stderr) == (3, True)


@pytest.mark.parametrize("command", [("submit", "--file"), ("calendars", "put", "c", "--file"), ("graphs", "submit")])
async def test_a_file_that_cannot_be_read(duetime: Duetime, tmp_path: Path, command: tuple[str, ...]) -> None:
    assert "cannot be read: No such file" in refused(await duetime(*command, str(tmp_path / "missing")))
    assert "cannot be read: Is a directory" in refused(await duetime(*command, str(tmp_path)))
    file = tmp_path / "latin"
    file.write_bytes('{"task": "Grüße"}'.encode("latin-1"))
    assert "cannot be read: it is not UTF-8" in refused(await duetime(*command, str(file)))
    assert "cannot be read: it is not UTF-8" in refused(await duetime(*command, "-", input=file.read_bytes()))


@pytest.mark.parametrize("line", ["5", "[1]", "null", '"greet"'])
async def test_what_is_no_job_is_named_by_its_line(duetime: Duetime, tmp_path: Path, line: str) -> None:
    file = tmp_path / "jobs.ndjson"
    file.write_text(f'{{"task": "greet"}}\n\n{line}\n')
    assert "line 3: is not a JSON object" in refused(await duetime("submit", "--file", str(file)))
    file.write_text(json.dumps({"nodes": {"a": json.loads(line)}}))
    assert "nodes.a: is not a JSON object" in refused(await duetime("graphs", "submit", str(file)))
    assert facts(await duetime("jobs", "list", "--json")) == []


async def test_a_line_ends_where_the_file_says(duetime: Duetime, tmp_path: Path) -> None:
    file = tmp_path / "jobs.ndjson"
    file.write_bytes('{"task": "greet", "run_in": "1d", "args": {"to": "a\u2028b\x85c"}}\r\n'.encode())
    assert facts(await duetime("submit", "--file", str(file), "--json")) == [{"stored": 1}]


async def test_jobs_are_listed_by_name(duetime: Duetime) -> None:
    for name in ("b", "c", "a"):
        await duetime("submit", "later", "--in", "1d", "--name", name)
    for order, names in (("name", ["a", "b", "c"]), ("-name", ["c", "b", "a"])):
        assert [job["name"] for job in facts(await duetime("jobs", "list", "--order", order, "--json"))] == names
    assert "order: " in refused(await duetime("jobs", "list", "--order", "status"))


async def test_a_file_of_which_a_part_is_stored(duetime: Duetime, tmp_path: Path) -> None:
    lines = [json.dumps({"task": "later", "run_in": "1d"})] * 2100
    lines[1500] = json.dumps({"task": "later", "cron": "99 * * * *"})
    file = tmp_path / "jobs.ndjson"
    file.write_text("\n" + "\n".join(lines))  # the first line is empty
    told = refused(await duetime("submit", "--file", str(file)))
    assert "line 1502.cron: " in told and "99" in told, "the line of the file, and what is wrong with it"
    assert "1,000 jobs above line 1002 are stored" in told
    assert len(facts(await duetime("jobs", "list", "--limit", "5000", "--json"))) == 1000
    file.write_text(lines[1500])
    told = refused(await duetime("submit", "--file", str(file)))
    assert "line 1.cron: " in told and "are stored" not in told


async def test_what_cannot_be_undone_is_asked_at_a_terminal(
    app: App, duetime: Duetime, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task(name="fail", retries=0)
    async def fail() -> None:
        raise ValueError("no good")

    async with working(app):
        for _ in range(3):
            await duetime("submit", "fail", "--wait", "20s")
    (job,) = facts(await duetime("schedule", "fail", "every hour", "--name", "hourly", "--json"))
    (key,) = facts(await duetime("keys", "create", "viewer", "bob", "--json"))
    file = tmp_path / "graph.json"
    file.write_text(json.dumps({"nodes": {"a": {"task": "later", "run_in": "1d"}}}))
    (graph,) = facts(await duetime("graphs", "submit", str(file), "--json"))
    # A test has no terminal.
    monkeypatch.setattr("duetime.cli.server_commands.ServerCommand.must_confirm", lambda talk, *, yes: not yes)
    for command, question in (
        (("dead", "discard", "--all"), "Remove 3 dead letters?"),
        (("dead", "discard", "--task", "fail"), "Remove 3 dead letters?"),
        (("jobs", "delete", job["job_id"]), "(fail hourly)?"),
        (("keys", "revoke", key["key_id"]), "of 'bob'?"),
        (("graphs", "cancel", graph["graph_id"]), "with 1 nodes that have not ended?"),
    ):
        refused = await duetime(*command, input="n\n")
        assert (refused.exit_code, question in refused.stderr) == (1, True), refused.output
    assert len(facts(await duetime("dead", "list", "--json"))) == 3
    one = facts(await duetime("dead", "list", "--json"))[0]["run_id"]
    assert facts(await duetime("dead", "discard", one, "--json")) == [{"discarded": 1}], "it was named"
    assert "removed 2" in (await duetime("dead", "discard", "--all", input="y\n")).output
    facts(await duetime("jobs", "delete", job["job_id"], "--yes", "--json"))
    monkeypatch.undo()
    facts(await duetime("keys", "revoke", key["key_id"], "--json"))
    facts(await duetime("graphs", "cancel", graph["graph_id"], "--json"))


@pytest.fixture
def clock_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Moves the machine to another time zone."""

    def move(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


async def test_times_say_whose_clock_they_go_by(duetime: Duetime, clock_of: Callable[[str], None]) -> None:
    clock_of("America/New_York")
    told = await duetime("schedule", "later", "every day at 9am")
    assert "its times are UTC; use --tz America/New_York for your time zone" in told.stderr
    for unclear in (("every 15m",), ("every day at 9am", "--tz", "UTC"), ("every day at 9am", "--json")):
        assert (await duetime("schedule", "later", *unclear)).stderr.count("for your time zone") == 0, unclear
    assert re.search(r"0[45]:00:00-0[45]:00", (await duetime("jobs", "list")).stdout), "9:00 UTC, with its offset"
    clock_of("UTC")
    assert "for your time zone" not in (await duetime("schedule", "later", "0 9 * * *")).stderr
    assert "09:00:00Z" in (await duetime("jobs", "list")).stdout


async def test_a_queue_that_nobody_has_used_is_told(duetime: Duetime) -> None:
    await duetime("submit", "later", "--in", "1d", "--queue", "mail")
    assert "never had a job" not in (await duetime("queues", "pause", "mail")).stderr
    assert "mial has never had a job" in (await duetime("queues", "pause", "mial")).stderr


async def test_what_a_queue_needs(duetime: Duetime) -> None:
    await duetime("submit", "later", "--in", "2m", "--queue", "mail")
    asked = ("queues", "demand", "mail", "--slots", "5", "--lag", "5s", "--rate", "100/s")
    found = json.loads((await duetime(*asked, "--duration", "2s", "--minutes", "5", "--json")).stdout)
    assert (found["workers"], found["workers_now"], found["coming"], found["slots"]) == (1, 0, 1, 5)
    told = await duetime(*asked)
    assert "workers ahead" in told.stdout and "1 s is assumed" in told.stderr
    assert (await duetime(*asked, "--minutes", "90")).exit_code == 2


async def test_graphs_and_groups(app: App, duetime: Duetime, tmp_path: Path) -> None:
    @app.task(name="maybe", retries=0)
    async def maybe(good: bool) -> None:
        if not good:
            raise ValueError("no good")

    file = tmp_path / "graph.json"
    nodes = {"a": {"task": "maybe", "args": {"good": False}, "retries": 0}}
    nodes["b"] = {"task": "maybe", "args": {"good": True}, "depends_on": ["a"]}
    file.write_text(json.dumps({"name": "night", "nodes": nodes}))
    async with working(app):
        (graph,) = facts(await duetime("graphs", "submit", str(file), "--json"))
        await app.wait_graph(graph["graph_id"], "20s")
    (listed,) = facts(await duetime("graphs", "--json"))
    assert (listed["name"], listed["status"], listed["size"]) == ("night", "FAILED", 2)
    shown = (await duetime("graphs", "show", graph["graph_id"])).stdout
    assert "CANCELLED" in shown
    (group,) = facts(await duetime("dead", "groups", "--json"))
    assert (group["count"], group["error"].partition("\n")[0]) == (1, "ValueError: no good")
    again = ("dead", "replay", "--fingerprint", group["fingerprint"])
    assert facts(await duetime(*again, "--json")) == [{"replayed": 1}]
    assert "replayed 0: no dead letter matches; a run that was replayed" in (await duetime(*again)).stdout
    (cancelled,) = facts(await duetime("graphs", "cancel", graph["graph_id"], "--json"))
    assert cancelled["counts"] == {"CANCELLED": 2}
    wrong = await duetime("graphs", "submit", str(tmp_path / "nowhere.json"))
    assert wrong.exit_code == 2
    file.write_text("[]")
    assert (await duetime("graphs", "submit", str(file))).exit_code == 2


async def test_breakers(app: App, duetime: Duetime) -> None:
    store = await app.store()
    await store.breakers.report_attempts([Tally(DEFAULT_TENANT, "greet", 20, 20, 3)], BreakerPolicy())
    (breaker,) = facts(await duetime("breakers", "--json"))
    assert (breaker["target"], breaker["state"], breaker["trips"]) == ("greet", "open", 1)
    (closed,) = facts(await duetime("breakers", "reset", "greet", "--json"))
    assert closed["state"] == "closed"
    assert "no breaker is open" in (await duetime("breakers", "list")).stderr


async def test_keys_and_tenants(served: Served, duetime: Duetime) -> None:
    rate = ("--fires-per-second", "5")
    (tenant,) = facts(await duetime("tenants", "create", "acme", "--stored-jobs", "100", *rate, "--json"))
    assert (tenant["limits"]["stored_jobs"], tenant["limits"]["fires_per_second"]) == (100, 5.0)
    (tenant,) = facts(await duetime("tenants", "change", "acme", "--fires-per-second", "7.5", "--json"))
    assert tenant["limits"]["fires_per_second"] == 7.5
    change = ("tenants", "change", "acme", "--limit", "calendars=5", "--limit", "queues=none", "--json")
    (tenant,) = facts(await duetime(*change))
    limits = tenant["limits"]
    assert (limits["stored_jobs"], limits["calendars"], limits["queues"], limits["alerts"]) == (100, 5, None, 100)
    assert facts(await duetime("tenants", "show", "acme", "--json")) == [tenant]
    assert (await duetime("tenants", "change", "acme", "--limit", "calendars")).exit_code == 2
    usual = ("tenants", "defaults", "--tenant", "acme", "--json")
    retry = """{"retries": 5}"""
    (found,) = facts(await duetime(*usual, "--timeout", "30s", "--retry", retry, "--tz", "Europe/Berlin"))
    assert (found["timeout"], found["retry"]["retries"], found["tz"]) == ("30s", 5, "Europe/Berlin")
    (found,) = facts(await duetime(*usual, "--without", "timeout", "--without", "retry", "--queue", "bulk"))
    assert found == {"queue": "bulk", "tz": "Europe/Berlin"} and facts(await duetime(*usual)) == [found]
    for wrong in (("--without", "name"), ("--without", "queue", "--queue", "a"), ("--timeout", "8d")):
        assert (await duetime(*usual, *wrong)).exit_code == 2, wrong
    (key,) = facts(await duetime("keys", "create", "viewer", "board", "--tenant", "acme", "--json"))
    (listed,) = facts(await duetime("keys", "list", "--tenant", "acme", "--json"))
    assert (listed["key_id"], "key" in listed) == (key["key_id"], False)
    assert facts(await duetime("jobs", "list", "--key", key["key"], "--json")) == []
    refused = await duetime("submit", "greet", "--key", key["key"])
    assert refused.exit_code == 6
    (fresh,) = facts(await duetime("keys", "rotate", key["key_id"], "--overlap", "0s", "--tenant", "acme", "--json"))
    facts(await duetime("keys", "revoke", fresh["key_id"], "--tenant", "acme", "--json"))
    scheduled = await duetime("schedule", "greet", "0 9 * * *", "--tenant", "acme")
    assert scheduled.exit_code == 0 and "its times are UTC" not in scheduled.stderr


async def test_wrong_usage_says_what_to_do(served: Served, duetime: Duetime) -> None:
    wrong = await duetime("submit", "greet", "nonsense")
    assert (wrong.exit_code, "name=text" in wrong.stderr) == (2, True)
    missing = await duetime("jobs", "show", "job_00000000000000000000000000")
    assert missing.exit_code == 1
    nowhere = await duetime("jobs", "list", "--url", "http://127.0.0.1:9")
    assert (nowhere.exit_code, "cannot be reached" in nowhere.stderr) == (3, True)
    worker = await served.key(Role.WORKER)
    assert (await duetime("jobs", "list", "--key", worker)).exit_code == 6


def test_commands_find_the_server_of_the_folder(tmp_path: Path) -> None:
    data = ["--data-dir", str(tmp_path / "data")]
    code, command = run(tmp_path, "jobs", "list", *data)
    assert (code, "start `duetime up`" in command.stderr) == (2, True)
    with Command(tmp_path, "up", "examples.hello:app", *data, "--port", "0", "--json") as up:
        up.until(lambda up: '"up"' in up.stdout)
        code, command = run(tmp_path, "jobs", "list", *data, "--json")
        assert code == 0, command
        assert {job["task"] for job in command.lines} <= {"hello", "tick"} or command.lines
        assert up.stop() == 0


def test_a_process_that_uses_the_file_without_a_server_is_named(tmp_path: Path) -> None:
    data = ["--data-dir", str(tmp_path / "data")]
    with Command(tmp_path, "worker", "examples.hello:app", "--embedded", *data, "--json") as owner:
        owner.until(lambda owner: '"up"' in owner.stdout)
        for left in (None, "http://127.0.0.1:9"):
            if left is not None:  # by a server that was killed
                (tmp_path / "data" / "server-url").write_text(left)
            for group in ("jobs", "dead"):
                code, command = run(tmp_path, group, "list", *data)
                assert code == 2
                assert f"process {owner.pid} uses the file {tmp_path / 'data' / 'duetime.db'}" in only_line(command)
                assert "serves no API (stop it and start `duetime up MODULE:APP`" in only_line(command)
        code, command = run(tmp_path, "doctor", *data)
        assert (code, "✗ server       process" in command.stdout, command.stderr) == (2, True, "")
        assert owner.stop() == 0


async def test_without_a_key_the_error_says_how_to_get_one(served: Served, tmp_path: Path) -> None:
    environ = {"DUETIME_URL": served.url, "HOME": str(tmp_path)}
    code, command = await asyncio.to_thread(run, tmp_path, "jobs", "list", environ=environ)
    assert (code, f"error  key: {served.url} needs a key (set DUETIME_KEY; " in only_line(command)) == (6, True)
    assert "`duetime root-key`" in command.stderr and "`duetime login`" in command.stderr
    environ["DUETIME_KEY"] = "dt_live_" + "0" * 40
    code, command = await asyncio.to_thread(run, tmp_path, "jobs", "list", environ=environ)
    assert (code, "error  key: the key is unknown" in only_line(command)) == (6, True)


async def test_keys_expire_and_are_bound(duetime: Duetime, served: Served) -> None:
    (usual,) = facts(await duetime("keys", "create", "viewer", "usual", "--json"))
    assert usual["expires_at"] is not None and usual["networks"] == []
    (made,) = facts(
        await duetime(
            *("keys", "create", "viewer", "bound", "--expires-at", "never", "--network", "192.0.2.0/24", "--json")
        )
    )
    assert (made["expires_at"], made["networks"]) == (None, ["192.0.2.0/24"])
    (fresh,) = facts(
        await duetime("keys", "rotate", made["key_id"], "--expires-in", "2d", "--network", "127.0.0.1", "--json")
    )
    assert fresh["expires_at"] is not None and fresh["networks"] == ["127.0.0.1/32"]
    await served.get("/v1/jobs", key=fresh["key"])
    await served.service.tick()
    shown = (await duetime("keys", "list")).stdout
    assert "last used" in shown and "127.0.0.1/32" in shown
    listed = facts(await duetime("keys", "list", "--json"))
    assert [key["last_used_at"] is not None for key in listed] == [False, False, True]
    assert "--expires-in" in (await duetime("keys", "create", "viewer", "x", "--expires-in", "soon")).stderr
    both = await duetime("keys", "create", "viewer", "x", "--expires-in", "1d", "--expires-at", "never")
    assert both.exit_code == 2


async def test_sessions_are_listed_and_ended(duetime: Duetime, served: Served) -> None:
    (link,) = facts(await duetime("login-link", "--json"))
    path = link["url"].removeprefix(served.url)
    assert (await served.get(path, key=None, headers={"User-Agent": "Lynx"})).status == 303
    (mine,) = facts(await duetime("sessions", "--json"))
    assert (mine["address"], mine["user_agent"], mine["role"]) == ("127.0.0.1", "Lynx", "root")
    assert "Lynx" in (await duetime("sessions", "list")).stdout
    await served.post("/login", {"key": await served.key(Role.VIEWER)}, key=None)
    assert len(facts(await duetime("sessions", "list", "--of", "all", "--json"))) == 2
    facts(await duetime("sessions", "revoke", mine["session_id"], "--json"))
    assert facts(await duetime("sessions", "--json")) == []
    assert len(facts(await duetime("sessions", "revoke", "--all-of", "all", "--json"))) == 1
    assert "--all-of" in refused(await duetime("sessions", "revoke"))


async def test_issuers_tokens_and_keys_with_a_scope(duetime: Duetime, served: Served, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_text(pem())
    where = ("--issuer", ISSUER, "--public-key", str(file))
    (made,) = facts(await duetime("issuers", "set", "app", *where, "--role", "operator", "--json"))
    assert (made["audience"], made["role"]) == ("duetime:default", "operator")
    assert [each["name"] for each in facts(await duetime("issuers", "--json"))] == ["app"]
    user = ("--key", token("ann", headers={}), "--json")
    (job,) = facts(await duetime("submit", "greet", "--in", "1h", *user))
    facts(await duetime("submit", "greet", "--in", "1h", "--owner", "bob", "--json"))
    assert [each["job_id"] for each in facts(await duetime("jobs", *user))] == [job["job_id"]]
    await duetime("jobs", "trigger", job["job_id"], *user)
    assert len(facts(await duetime("runs", "list", "--owner", "ann", "--json"))) == 1
    assert facts(await duetime("runs", "list", "--owner", "bob", "--json")) == []
    (key,) = facts(await duetime("keys", "create", "viewer", "bob's", "--owner", "bob", "--json"))
    (listed,) = facts(await duetime("jobs", "--key", key["key"], "--json"))
    assert listed["owner"] == "bob"
    assert "cannot be read" in (await duetime("issuers", "set", "x", "--issuer", "i", "--jwks", "/nowhere")).output
    assert (await duetime("issuers", "delete", "app", "--yes")).exit_code == 0
    assert (await duetime("jobs", *user)).exit_code != 0


async def test_checkins_and_alerts_about_jobs(duetime: Duetime, served: Served) -> None:
    schedule = ("--cron", "0 2 * * *", "--tz", "Europe/Berlin", "--grace", "30m", "--max-runtime", "3h")
    (made,) = facts(await duetime("checkins", "set", "backup", *schedule, "--json"))
    assert (made["grace"], made["max_runtime"], made["status"]) == (1800, 10_800, "new")
    async with served.http.get(f"{served.url}{made['ping_url']}/3") as answer:
        assert answer.status == 200
    (listed,) = facts(await duetime("checkins", "--json"))
    assert (listed["last_ping"], listed["exit_code"], listed["ping_url"]) == ("fail", 3, None)
    (rotated,) = facts(await duetime("checkins", "rotate", "backup", "--json"))
    assert rotated["ping_url"] != made["ping_url"]
    assert facts(await duetime("checkins", "pause", "backup", "--json"))[0]["status"] == "paused"
    assert "'soon' is not a duration" in refused(await duetime("checkins", "set", "x", "--every", "soon"))
    (rule,) = facts(await duetime("alerts", "set", "silent", "no_success", "25h", "--task", "backup", "--json"))
    assert (rule["threshold"], rule["task"], rule["topic"]) == (90_000, "backup", "job.silent")
    assert "which measures a queue" in refused(await duetime("alerts", "set", "x", "backlog", "1", "--tag", "t"))
    assert (await duetime("checkins", "delete", "backup")).exit_code == 0


async def test_an_export_continues_where_it_was_stopped(served: Served, duetime: Duetime, tmp_path: Path) -> None:
    for number in range(30):
        await served.post("/v1/jobs", {"task": "t", "args": {"number": number}})
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    (told,) = facts(await duetime("export", str(whole), "--json"))
    notes = json.loads((whole / "export.json").read_bytes())
    assert told["files"] == len(notes["sections"])
    assert told["objects"] == sum(section["objects"] for section in notes["sections"].values())
    runs = (whole / "runs.jsonl").read_bytes()
    assert [json.loads(line)["args"]["number"] for line in runs.splitlines()] == list(range(30))
    assert "complete" in refused(await duetime("export", str(whole)))

    # Killed after it had written a part of a page, before it noted the page.
    stopped.mkdir()
    for name, section in notes["sections"].items():
        if name != "settings":
            section.update(objects=0, size=0, cursor=None, done=False)
    (stopped / "export.json").write_text(json.dumps(notes))
    (stopped / "settings.jsonl").write_bytes((whole / "settings.jsonl").read_bytes())
    (stopped / "runs.jsonl").write_bytes(runs[:777])
    assert (await duetime("export", str(stopped))).exit_code == 0
    for name in notes["sections"]:
        if name != "audit":  # it has the second export, too
            assert (stopped / f"{name}.jsonl").read_bytes() == (whole / f"{name}.jsonl").read_bytes(), name
    assert "not empty" in refused(await duetime("export", str(tmp_path)))


async def test_a_tenant_is_deleted_with_its_name(served: Served, duetime: Duetime) -> None:
    acme = await served.tenant("acme")
    assert (await duetime("tenants", "delete", "acme", input="amce\n")).exit_code == 2
    assert (await duetime("tenants", "delete", "acme", "--grace", "1d", input="acme\n")).exit_code == 0
    (listed,) = facts(await duetime("tenants", "erasures", "--json"))
    assert (listed["number"], listed["tenant"], listed["status"]) == (acme.id, "acme", "WAITING")
    assert "WAITING" in (await duetime("tenants", "erasure", str(acme.id))).stdout
    assert (await duetime("tenants", "undelete", "acme")).exit_code == 0
    assert (await duetime("usage", "--all")).exit_code == 0
    assert facts(await duetime("usage", "--json")) == []


async def test_why_something_waits_and_who_left(served: Served, duetime: Duetime) -> None:
    (made,) = facts(await duetime("submit", "nobody.has.this", "--json"))
    for command in (("runs", "why", made["run_id"]), ("jobs", "why", made["job_id"]), ("runs", "show", made["run_id"])):
        result = await duetime(*command)
        assert result.exit_code == 0 and "No live worker has nobody.has.this" in result.output, result.output
        assert "Start a worker with the app that has this task" in result.output
    (said,) = facts(await duetime("runs", "why", made["run_id"], "--json"))
    assert [each["code"] for each in said["reasons"]] == ["no_worker"]
    await duetime("runs", "cancel", made["run_id"])
    assert "it does not wait" in (await duetime("runs", "why", made["run_id"])).output
    worker = await hand(served.store)
    await served.store.leases.leave(worker.id)
    (past,) = [each for each in facts(await duetime("workers", "--past", "--json")) if each["name"] == "hand"]
    assert (past["state"], past["held"]) == ("ENDED", 0)
    assert (await duetime("trends", "--range", "week")).exit_code == 0
