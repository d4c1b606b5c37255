"""Schedules of Celery and APScheduler become jobs on a real server: shown first, stored once, changed by an edit."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from typer.main import get_command

from duetime.cli.apscheduler_jobs import _days, jobs_of, read_jobs
from duetime.cli.main import application
from tests.support.served import Served

Duetime = Callable[..., Awaitable[Result]]
COMMAND = get_command(application)
BEAT = """
from datetime import timedelta
from {library} import Celery{more}
app = Celery("shop"{jobs})
@app.task(name="report")
def report(to, copies=1): ...
app.conf.timezone = "Europe/Berlin"
app.conf.beat_schedule = {{
    "daily": {{"task": "report", "schedule": crontab(minute=0, hour={hour}), "args": ("ops",)}},
    "often": {{"task": "report", "schedule": timedelta(minutes=5), "kwargs": {{"to": "me"}}}},
    "odd": {{"task": "unknown", "schedule": 60, "args": (1,)}},
}}
entries = {{"tick": {{"task": "t", "schedule": crontab(minute=30)}}}}
"""
SCHEDULER = """
from apscheduler.schedulers.background import BackgroundScheduler
scheduler = BackgroundScheduler(timezone="Europe/Berlin")
def tick(to="x"): ...
scheduler.add_job(tick, "cron", day_of_week="mon-fri", hour=9, id="cron", kwargs={"to": "ops"})
scheduler.add_job(tick, "interval", minutes=5, id="interval", start_date="2027-01-01 00:00:00", jitter=10)
scheduler.add_job(tick, "date", run_date="2199-01-01 10:00:00", id="date")
scheduler.add_job(tick, "cron", week=3, id="week")
scheduler.add_job(tick, "date", run_date="2020-01-01 10:00:00", id="past")
scheduler.add_job(tick, "interval", hours=1, args=["x"], id="positional", coalesce=False, misfire_grace_time=30)
scheduler.add_job(tick, "interval", hours=2, id="all", coalesce=False, misfire_grace_time=None)
scheduler.add_job(print, "interval", hours=1, args=["x"], id="unnamed")
"""


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'duetime.db'}"


@pytest.fixture
async def duetime(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Duetime:
    environ = {"DUETIME_URL": served.url, "DUETIME_KEY": await served.key(), "COLUMNS": "250", "NO_COLOR": "1"}
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    async def command(*arguments: str, **more: Any) -> Result:
        sys.modules.pop("imported", None)
        return await asyncio.to_thread(CliRunner().invoke, COMMAND, arguments, env=environ, **more)

    return command


def facts(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def write(text: str) -> None:
    file = Path("imported.py")
    file.write_text(text)
    for made in Path("__pycache__").glob("imported.*"):
        made.unlink()  # two versions within a second have the same time


@pytest.mark.filterwarnings("ignore:Task name")  # one process imports the module again, which no command does
@pytest.mark.parametrize("library", ["celery", "duetime.celery"])
async def test_a_beat_schedule(duetime: Duetime, library: str) -> None:
    own = library == "duetime.celery"
    more = ", crontab\nimport duetime" if own else "\nfrom celery.schedules import crontab"
    parts = {"library": library, "more": more, "jobs": ", duetime.App()" if own else ""}
    write(BEAT.format(hour=9, **parts))
    plan = await duetime("import-beat", "imported:app", input="n\n")
    assert "Create 2 jobs?" in plan.stdout and "At 09:00" in plan.stdout and "Europe/Berlin" in plan.stdout
    assert "odd is skipped" in plan.stderr and "no worker has the task report" in plan.stderr
    assert facts(await duetime("jobs", "list", "--json")) == [], "a plan stores nothing"
    for change, stored in (("new", 2), ("same", 0)):
        *planned, answer = facts(await duetime("import-beat", "imported:app", "--yes", "--json"))
        assert [each["change"] for each in planned] == [change, change]
        assert answer == {"stored": stored, "known": 2 - stored, "left_out": 1, "has_worker": False}
    write(BEAT.format(hour=8, **parts))
    *planned, _ = facts(await duetime("import-beat", "imported:app", "--yes", "--json"))
    assert [each["change"] for each in planned] == ["edit", "same"]
    stored_jobs = {each["key"]: each for each in facts(await duetime("jobs", "list", "--json"))}
    assert stored_jobs.keys() == {"beat:daily", "beat:often"}
    assert stored_jobs["beat:daily"]["schedule"]["sentence"] == "At 08:00, Europe/Berlin"
    daily = facts(await duetime("jobs", "show", stored_jobs["beat:daily"]["job_id"], "--json"))[0]
    assert daily["args"] == {"to": "ops"}, "arguments got the names of the task's parameters"
    (tick,) = facts(await duetime("import-beat", "imported:entries", "--tz", "Asia/Tokyo", "--json"))
    assert tick["tz"] == "Asia/Tokyo"


async def test_the_jobs_of_apscheduler(duetime: Duetime) -> None:
    write(SCHEDULER)
    plan = await duetime("import-apscheduler", "imported:scheduler", input="n\n")
    assert "Create 5 jobs?" in plan.stdout and "jitter only delays" in plan.stdout
    assert "of missed runs the newest 1,000 are made up" in plan.stdout
    assert all(f"{name} is skipped" in plan.stderr for name in ("week", "past", "unnamed"))
    for change, stored in (("new", 5), ("same", 0)):
        *planned, answer = facts(await duetime("import-apscheduler", "imported:scheduler", "--yes", "--json"))
        assert ({each["change"] for each in planned}, answer["stored"]) == ({change}, stored)
    moved = facts(await duetime("import-apscheduler", "imported:scheduler", "--queue", "mail", "--json"))
    assert {each["change"] for each in moved} == {"edit"}, "an option is a change, too"
    stored_jobs = {each["key"]: each for each in facts(await duetime("jobs", "list", "--json"))}
    assert stored_jobs["apscheduler:cron"]["schedule"]["sentence"] == "At 09:00, Monday to Friday, Europe/Berlin"
    assert stored_jobs["apscheduler:interval"]["task"] == "imported.tick"
    names = ("positional", "all", "cron")
    known = [stored_jobs[f"apscheduler:{name}"]["job_id"] for name in names]
    positional, late, cron = [facts(await duetime("jobs", "show", each, "--json"))[0] for each in known]
    assert (positional["args"], positional["misfire"]["mode"]) == ({"to": "x"}, "all")
    assert (positional["misfire"]["age"], positional["misfire"]["most"]) == (30, 1000)
    assert late["misfire"]["age"] > 3_000_000_000 and cron["misfire"]["mode"] == "skip"


@pytest.mark.parametrize("source", ["imported", "imported:missing", "nowhere:app", "imported:tick"])
async def test_a_source_that_is_none(duetime: Duetime, source: str) -> None:
    write(SCHEDULER)
    for command in ("import-beat", "import-apscheduler"):
        answer = await duetime(command, source, "--yes")
        assert (answer.exit_code, answer.stdout) == (2, "")


@pytest.mark.parametrize(
    ("days", "weekdays", "wanted"),
    [
        ("*", "mon-fri", ("*", "MON,TUE,WED,THU,FRI")),
        ("*", "0", ("*", "MON")),
        ("*", "*/2", ("*", "MON,WED,FRI,SUN")),
        ("last", "*", ("L", "*")),
        ("2nd tue", "*", ("*", "TUE#2")),
        ("last fri", "*", ("*", "FRIL")),
        ("1-7", "5,6", ("1-7", "SAT,SUN")),
    ],
)
def test_days_of_apscheduler(days: str, weekdays: str, wanted: tuple[str, str]) -> None:
    assert _days(days, weekdays) == wanted


def test_no_jobs() -> None:
    assert read_jobs(jobs_of([]), None) == ([], [])
