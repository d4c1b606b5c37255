"""What we show runs: every file in examples/, and every ```python block of the README and the docs.

The blocks of one page run in order, in one namespace, as if they were one file whose top level may await; its apps use
an empty folder. Functions called `test_…` are then called. A block that begins with ```python no-run is left out; for
```python server, a `duetime up` runs in that folder.
"""

import ast
import contextlib
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duetime import App, RunState
from duetime.testing import harness
from tests.support.command import Command, run

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py") if path.stem != "__init__")
BLOCK = re.compile(r"^```python(?P<info>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> Iterator[str]:
    """The blocks of a page that run, each below as many empty lines as stand above it, so that errors name the line."""
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        if "no-run" not in match["info"].split():
            yield "\n" * text.count("\n", 0, match.start("code")) + match["code"]


FILES = {ROOT / "docs" / "testing.md", ROOT / "docs" / "tutorial.md"}
"""Pages of files, which `test_pytest_plugin.py` and `tests/browser/test_tutorial.py` run."""
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")))
    if page not in FILES and any(blocks(page))
]


@pytest.mark.parametrize("name", EXAMPLES)
async def test_an_example(name: str) -> None:
    app: App = importlib.import_module(f"examples.{name}").app
    async with harness(app) as jobs:
        await app.started()
        runs = await jobs.advance(minutes=1)
    assert {run.task for run in runs} == set(app.tasks), "each of its tasks runs within a minute"
    assert {run.state for run in runs} == {RunState.SUCCEEDED}


def test_there_are_examples() -> None:
    assert "hello" in EXAMPLES
    assert ROOT / "README.md" in PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
async def test_a_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DUETIME_DATABASE_URL", raising=False)
    namespace: dict[str, Any] = {"__name__": page.stem}
    with contextlib.ExitStack() as around:
        if "\n```python server\n" in page.read_text(encoding="utf-8"):
            up = around.enter_context(Command(tmp_path, "up", "--json"))
            up.until(lambda up: '"up"' in up.stdout)
        await run_blocks(page, namespace)


async def run_blocks(page: Path, namespace: dict[str, Any]) -> None:
    try:
        for block in blocks(page):
            code = compile(block, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            outcome = eval(code, namespace)
            if inspect.iscoroutine(outcome):
                await outcome
        for test in [value for name, value in namespace.items() if name.startswith("test_")]:
            await test()
    finally:
        for app in [value for value in namespace.values() if isinstance(value, App)]:
            await app.close()


def test_the_first_files_of_the_readme_can_be_pasted_as_they_are(tmp_path: Path) -> None:
    found = [match["code"] for match in BLOCK.finditer((ROOT / "README.md").read_text(encoding="utf-8"))]
    for name, code in zip(("reports.py", "other.py"), found, strict=False):
        (tmp_path / name).write_text(code, encoding="utf-8")
    for _ in range(2):
        with Command(tmp_path, "up", "reports:app", "--json") as up:
            up.until(lambda up: '"up"' in up.stdout)
            done = subprocess.run(
                [sys.executable, "other.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
            )
            assert (done.returncode, done.stdout, done.stderr) == (0, "sent to ops@example.com\n", "")
            code, daily = run(tmp_path, "jobs", "list", "--json", "--status", "ACTIVE")
            assert up.stop() == 0
        assert (code, [job["key"] for job in daily.lines].count("daily-report")) == (0, 1), "however often it starts"


def test_a_page_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text\n```python no-run\nnot python\n```\n\n```python\nx = 1\n```\n```sh\nls\n```\n")
    assert list(blocks(page)) == ["\n" * 6 + "x = 1\n"]
