"""What we show runs: every file in examples/, and every ```python block of the README and the docs.

The blocks of one page run in order, in one namespace, as if they were one file whose top level may await; its apps use
an empty folder. Functions called `test_…` are then called. A block that begins with ```python no-run is left out.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duetime import App, RunState
from duetime.testing import harness

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py") if path.stem != "__init__")
BLOCK = re.compile(r"^```python(?P<info>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> Iterator[str]:
    """The blocks of a page that run, each below as many empty lines as stand above it, so that errors name the line."""
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        if "no-run" not in match["info"].split():
            yield "\n" * text.count("\n", 0, match.start("code")) + match["code"]


PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))) if any(blocks(page))]


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


def test_a_page_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text\n```python no-run\nnot python\n```\n\n```python\nx = 1\n```\n```sh\nls\n```\n")
    assert list(blocks(page)) == ["\n" * 6 + "x = 1\n"]
