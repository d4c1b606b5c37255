"""The fixture `jobs`: the pages of docs/testing.md as they are printed, and what is wrong is said."""

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
FILE = re.compile(r"^```python\n# (?P<name>\w+\.py)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
IS_INSTALLED = bool(entry_points(group="pytest11", name="duetime"))

APP = """\
import asyncio
import duetime
app = duetime.App()
seen = []

@app.task(retries=0)
def parent(number: int) -> None:
    seen.append(number)
    if number:
        parent.sync.submit(number=number - 1)

@app.task(retries=0)
async def failing() -> None:
    raise LookupError("no such card")

@app.on_failure
def failed(attempt: duetime.FailedAttempt) -> None:
    seen.append(attempt.message)
"""
TESTS = """\
import threading
import pytest
from shop import app, failing, parent, seen

@pytest.mark.duetime(eager=True)
def test_what_a_task_submits_runs_before_the_submission_returns(jobs):
    seen.clear()
    parent.sync.submit(number=2)
    assert seen == [2, 1, 0]

@pytest.mark.duetime(eager=True)
async def test_a_failure_does_not_leave_the_submission(jobs):
    seen.clear()
    await failing.submit()
    assert seen == ["LookupError: no such card"]

@pytest.mark.duetime(eager=True)
def test_threads_take_turns(jobs):
    seen.clear()
    threads = [threading.Thread(target=lambda: parent.sync.submit(number=0)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [0, 0, 0, 0] and len(jobs.submitted) == 4

class TestInAClass:
    async def test_async(self, jobs, tmp_path):
        await parent.submit(number=0)
        assert [run.task for run in await jobs.run_due()] == ["shop.parent"]

    def test_each_test_has_a_store_of_its_own(self, jobs):
        assert jobs.submitted == [] and jobs.run_due() == []
"""
WITHOUT_APP = """\
def test_without_an_app(jobs): ...

async def test_that_is_not_ours(): ...
"""
WRONG_MARK = """\
import pytest
from shop import app

@pytest.mark.duetime(egaer=True)
def test_with_a_wrong_mark(jobs): ...
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    plugin = () if IS_INSTALLED else ("-p", "duetime.pytest_plugin")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=110, check=False)


def test_the_page_and_more_as_printed_without_a_plugin_for_async_tests(tmp_path: Path) -> None:
    for match in FILE.finditer(PAGE.read_text(encoding="utf-8")):
        (tmp_path / match["name"]).write_text(match["code"], encoding="utf-8")
    (tmp_path / "shop.py").write_text(APP)
    (tmp_path / "test_shop.py").write_text(TESTS)
    (tmp_path / "test_wrong.py").write_text(WITHOUT_APP)
    (tmp_path / "test_mark.py").write_text(WRONG_MARK)
    (tmp_path / "test_script.py").write_text("def test_it():\n    import check_reports\n")
    done = run(tmp_path, "-p", "no:asyncio", "-p", "no:anyio", "-p", "no:xdist")
    assert "the mark duetime takes start= and eager=, not egaer" in done.stdout, done.stdout
    assert "`jobs` needs one app, and test_wrong has 0: set duetime_app = module:app" in done.stdout
    assert "async def functions are not natively supported" in done.stdout
    assert "1 failed, 10 passed, 2 errors" in done.stdout, done.stdout


def test_beside_a_plugin_for_async_tests(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    (tmp_path / "test_shop.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nduetime_app = shop:app\nasyncio_mode = auto\n")
    done = run(tmp_path, "-p", "no:xdist")
    assert "5 passed" in done.stdout, done.stdout


@pytest.mark.skipif(not IS_INSTALLED, reason="the installed duetime is older than its plugin: pip install -e .")
def test_the_plugin_imports_nothing_until_it_is_used() -> None:
    code = "import duetime.pytest_plugin, sys; print([name for name in sys.modules if name.startswith('duetime.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "['duetime.version', 'duetime.pytest_plugin']"
