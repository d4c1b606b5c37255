"""Logs: which attempt a line belongs to, for machines and for people."""

import json
import logging
from collections.abc import Iterator

import pytest

from duetime import App
from duetime.cli.output import set_up_logging
from duetime.ids import show
from tests.support.working import ended, working

log = logging.getLogger("shop.bank")


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


async def test_every_line_of_an_attempt_names_it(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    @app.task(name="pay", retries=0)
    async def pay() -> None:
        log.warning("no answer")

    @app.task(name="plain", retries=0)
    def plain() -> None:
        log.warning("from a thread")

    set_up_logging("info", "json")
    jobs = [await app.submit("pay"), await app.submit("plain")]
    async with working(app):
        runs = [await ended(app, job) for job in jobs]
    log.warning("outside")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    by_text = {line["message"]: line for line in lines}
    for text, job, run, task in zip(("no answer", "from a thread"), jobs, runs, ("pay", "plain"), strict=True):
        line = by_text[text]
        assert (line["job_id"], line["run_id"]) == (job.job_id, show("run", run.id))
        assert (line["attempt"], line["tenant_id"], line["task"], line["logger"]) == (1, 1, task, "shop.bank")
    assert "run_id" not in by_text["outside"]


async def test_for_people(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    @app.task(name="pay", retries=0)
    async def pay() -> None:
        log.warning("no answer")

    set_up_logging("info", "text")
    async with working(app):
        run = await ended(app, await app.submit("pay"))
    assert f"shop.bank: no answer  ({show('run', run.id)}, attempt 1)" in capsys.readouterr().err


def test_what_is_no_terminal_gets_json(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("info", "auto")
    log.warning("hello")
    assert json.loads(capsys.readouterr().err)["message"] == "hello"
