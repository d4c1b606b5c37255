"""Whatever a submitter, a worker or a receiver wrote: no control character and no hidden one arrives at a terminal, in
a log, or in a message to people."""

import asyncio
import json
import logging
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from duetime import App, Context
from duetime.cli.main import application, main
from duetime.cli.output import set_up_logging
from duetime.cli.ticker import Ticker
from duetime.ids import new_id
from duetime.model.attempt import AttemptState, Claimed, Completion
from duetime.model.failure import FailureClass
from duetime.model.retry import Verdict
from duetime.model.run import Event
from duetime.text.visible import visible, visible_json, visible_lines
from tests.support.hostile import ESCAPES, HOSTILE, dangers, hostile_server
from tests.support.served import Served
from tests.support.waiting import eventually
from tests.support.working import ended, working

ID = "01k00000000000000000000000"
JOB, RUN, KEY = f"job_{ID}", f"run_{ID}", f"key_{ID}"
WHEN = ("2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z")

COMMANDS: dict[str, tuple[str, ...]] = {
    "submit": ("greet",),
    "schedule": ("greet", "every hour"),
    "workers": (),
    "trends": (),
    "whoami": (),
    "tail": ("--count", "1"),
    "import-crontab": ("{crontab}", "--yes"),
    "import-beat": ("tests.support.imported_schedules:ENTRIES", "--yes"),
    "import-apscheduler": ("tests.support.imported_schedules:scheduler", "--yes"),
    "audit": (),
    "jobs edit": (JOB, "--name", "n"),
    "jobs list": (),
    "jobs show": (JOB,),
    "jobs status": (JOB,),
    "jobs why": (JOB,),
    "jobs cancel": (JOB,),
    "jobs pause": (JOB,),
    "jobs resume": (JOB,),
    "jobs trigger": (JOB,),
    "jobs backfill": (JOB, *WHEN),
    "jobs delete": (JOB,),
    "runs list": (),
    "runs show": (RUN,),
    "runs why": (RUN,),
    "runs cancel": (RUN,),
    "runs retry": (RUN,),
    "dead list": (),
    "dead groups": (),
    "dead replay": ("--all",),
    "dead discard": ("--all", "--yes"),
    "archive list": (),
    "archive read": ("2026-01-31",),
    "archive restore": ("2026-01-31",),
    "archive status": (),
    "archive erase": ("--yes",),
    "archive stop": (),
    "calendars list": (),
    "calendars show": ("days",),
    "calendars put": ("days", "2026-12-24"),
    "calendars delete": ("days",),
    "graphs list": (),
    "graphs submit": ("{graph}",),
    "graphs show": (f"grf_{ID}",),
    "graphs cancel": (f"grf_{ID}",),
    "graphs rerun": (f"grf_{ID}",),
    "queues list": (),
    "queues show": ("mail",),
    "queues demand": ("mail",),
    "queues set": ("mail", "--stream", "redis://127.0.0.1"),
    "queues limit": ("mail", "--running", "1"),
    "queues pause": ("mail",),
    "queues resume": ("mail",),
    "breakers list": (),
    "breakers reset": ("example.com",),
    "bulk list": (),
    "bulk preview": ("pause", "jobs", "--all"),
    "bulk start": ("pause", "jobs", "--all", "--no-wait"),
    "bulk show": ("blk_00000000000000000000000000",),
    "bulk stop": ("blk_00000000000000000000000000",),
    "usage": (),
    "export": ("{export}",),
    "issuers list": (),
    "issuers show": ("app",),
    "issuers set": ("app", "--issuer", "https://app.example.com", "--jwks-url", "https://app.example.com/jwks"),
    "issuers delete": ("app",),
    "checkins list": (),
    "checkins show": ("backup",),
    "checkins set": ("backup", "--every", "1h"),
    "checkins pause": ("backup",),
    "checkins resume": ("backup",),
    "checkins rotate": ("backup",),
    "checkins delete": ("backup",),
    "sources list": (),
    "sources show": ("orders",),
    "sources set": ("orders", "--broker", "{{}}", "--job", "{{}}"),
    "sources pause": ("orders",),
    "sources resume": ("orders",),
    "sources delete": ("orders",),
    "subscriptions list": (),
    "subscriptions set": ("ops", "run.dead", "--webhook", "https://example.com"),
    "subscriptions delete": ("ops",),
    "subscriptions test": ("ops",),
    "alerts list": (),
    "alerts set": ("old", "backlog", "10"),
    "alerts delete": ("old",),
    "tenants list": (),
    "tenants create": ("acme",),
    "tenants show": ("acme",),
    "tenants change": ("acme", "--state", "SUSPENDED"),
    "tenants defaults": ("--queue", "bulk"),
    "tenants delete": ("acme", "--confirm", "acme"),
    "tenants undelete": ("acme",),
    "tenants erasures": (),
    "tenants erasure": ("7",),
    "keys list": (),
    "keys create": ("admin", "k"),
    "keys rotate": (KEY,),
    "keys revoke": (KEY,),
    "secrets list": (),
    "secrets put": ("token", "--host", "example.com"),
    "secrets delete": ("token",),
    "sessions list": (),
    "sessions revoke": (f"ses_{ID}",),
    "login-link": (),
    "encryption status": (),
    "encryption re-encrypt": (),
}


UNTRIED = {"archive run"}
"""It polls until the server says that it has finished, which this one never does."""
EXIT_CODES = {"encryption re-encrypt": 1, "export": 3}
"""What says by its exit code that a server that has answered everything needs something more, or that its answer names
a file."""


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, inner in getattr(command, "commands", {}).items():
        yield from leaves(inner, (*path, name))
    if not hasattr(command, "commands"):
        yield " ".join(path), command


def test_every_command_that_talks_is_tried() -> None:
    every = leaves(typer.main.get_command(application))
    assert {name for name, command in every if "tenant" in {each.name for each in command.params}} == {
        *COMMANDS,
        *UNTRIED,
    }


def invoke(url: str, folder: Path, name: str, *more: str) -> Result:
    files = {"crontab": folder / "crontab", "graph": folder / "graph.json", "export": folder / "export"}
    files["crontab"].write_text("0 9 * * * true\n61 9 * * * \x1b[2J\n")
    files["graph"].write_text('{"nodes": {"a": {"task": "t"}}}')
    arguments = [each.format(**files) for each in COMMANDS[name]]
    environ = {"DUETIME_URL": url, "DUETIME_KEY": "dt_live_x", "COLUMNS": "250", "NO_COLOR": "1"}
    return CliRunner().invoke(application, [*name.split(), *arguments, *more], env=environ)


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["people", "scripts"])
@pytest.mark.parametrize("refuses", [False, True], ids=["answers", "refusals"])
async def test_commands_print_no_control_characters(tmp_path: Path, refuses: bool, more: tuple[str, ...]) -> None:
    tried, shown, failed = 0, 0, []
    async with hostile_server(refuses=refuses) as url:
        for name in list(COMMANDS)[:: 8 if refuses else 1]:
            result = await asyncio.to_thread(invoke, url, tmp_path, name, *more)
            if not refuses:
                failed += (
                    [(name, result.output, result.exception)] if result.exit_code != EXIT_CODES.get(name, 0) else []
                )
            assert isinstance(result.exception, SystemExit | None), (name, result.exception)
            assert not dangers(result.output), name
            assert "forgedb" not in result.output, f"{name} takes what it was told for markup"
            if more:
                for line in result.stdout.splitlines():
                    json.loads(line)
            tried += 1
            shown += "1b[2J" in result.output
    assert not failed
    assert shown >= tried * 2 // 3


async def test_what_a_worker_says_is_shown_as_text(app: App, served: Served) -> None:
    """From the task through the store to the commands, on each store."""

    @app.task(name="shout", retries=0)
    async def shout(ctx: Context, text: str) -> None:
        ctx.logger.info(text)
        ctx.progress(0.5, text)
        raise ValueError(text)

    receipt = await app.submit("shout", {"text": HOSTILE})
    async with working(app):
        run = await ended(app, receipt)
        await eventually(lambda: run.state.is_end)
    environ = {"DUETIME_URL": served.url, "DUETIME_KEY": served.root, "COLUMNS": "250", "NO_COLOR": "1"}
    for arguments in (
        ("runs", "show", str(receipt.run_id)),
        ("runs", "list"),
        ("dead", "list"),
        ("dead", "groups"),
        ("jobs", "show", receipt.job_id),
        ("jobs", "status", receipt.job_id),
    ):
        for more in ((), ("--json",)):
            result = await asyncio.to_thread(CliRunner().invoke, application, [*arguments, *more], env=environ)
            assert result.exit_code == 0, result.output
            assert "1b[2J" in result.output, arguments
            assert not dangers(result.output), arguments


def test_up_shows_errors_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    claimed = Claimed(new_id(), new_id(), 1, 1, 1, 0, 0, 0, 0, b"{}", None, None, None)
    for json_wanted in (False, True):
        ticker = Ticker(json=json_wanted)
        completion = Completion(
            claimed.run_id, 1, Verdict(Event.FAIL), AttemptState.FAILED, FailureClass.ERROR, ESCAPES + HOSTILE
        )
        ticker("task", claimed, completion)
        printed = capsys.readouterr().out
        assert "1b[2J" in printed and not dangers(printed)


@pytest.mark.parametrize("form", ["text", "json"])
def test_logs_hold_no_control_characters(capsys: pytest.CaptureFixture[str], form: str) -> None:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        set_up_logging("INFO", form)
        try:
            raise ValueError(HOSTILE + "\ud800")
        except ValueError:
            logging.getLogger("duetime.test").error("failed: %s", HOSTILE + "\ud800", exc_info=True)
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    logged = capsys.readouterr().err
    assert logged.count("1b[2J") >= 2 and not dangers(logged)
    if form == "json":
        assert json.loads(logged)["message"] == f"failed: {HOSTILE}\ud800"
    else:
        first, *rest = logged.splitlines()
        assert "ERROR   duetime.test: failed: a\\x1b[2J" in first
        assert rest and all(line.startswith("  ") for line in rest), "no line passes for another record"


def test_a_crash_of_a_command_is_shown_as_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise RuntimeError(HOSTILE)

    monkeypatch.setattr("duetime.cli.main.application", broken)
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr().err
    assert ended.value.code == 1 and "1b[2J" in printed and not dangers(printed)


def test_every_character_that_steers_or_hides_is_escaped() -> None:
    signs = (
        "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"  # seen, with digits
    )
    for number in range(sys.maxunicode + 1):
        char = chr(number)
        hides = unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") and char not in signs
        hides = hides and not 0x13430 <= number <= 0x1345F  # joins hieroglyphs
        if hides:
            assert visible(char).isascii() and visible(char) != char, hex(number)
            assert (visible_lines(char) == char) == (char in "\n\t"), hex(number)
            assert json.loads(visible_json(char)) == char
        elif unicodedata.category(char) != "Cn" and (number < 0x2100 or char in signs):
            assert visible(char) == visible_lines(char) == char


def test_lines() -> None:
    assert visible("a\tb\r\nc") == "a\\tb\\r\\nc"
    assert visible_lines("a\tb\r\nc\rd", indent="> ") == "a\tb\n> c\\rd"
    assert visible_json({"a": "ü\u202e\x1b\x7f\U000e0041"}) == '{"a":"ü\\u202e\\u001b\\u007f\\udb40\\udc41"}'
