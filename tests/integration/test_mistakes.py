"""The mistakes of new users: each block of docs/mistakes.md is run, and gives the message that is below it."""

import ast
import inspect
import logging
import re
import traceback
from pathlib import Path
from typing import Any

import pytest

from duetime.testing import harness
from tests.support.command import only_line, run

PAGE = Path(__file__).parents[2] / "docs" / "mistakes.md"
FILE = re.compile(r"^```python no-run\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
MISTAKE = re.compile(
    r"^## (?P<number>\d+)\. [^\n]*\n\n```(?P<kind>python no-run|sh)\n(?P<code>.*?)^```\n\n```text\n(?P<told>.*?)\n```$",
    re.MULTILINE | re.DOTALL,
)
TEXT = PAGE.read_text(encoding="utf-8")
MISTAKES = list(MISTAKE.finditer(TEXT))


def file() -> str:
    found = FILE.search(TEXT)
    assert found is not None
    return found["code"]


async def make(mistake: str, namespace: dict[str, Any]) -> str:
    """The last line that Python prints."""
    try:
        outcome = eval(compile(mistake, "reports.py", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), namespace)
        if inspect.iscoroutine(outcome):
            await outcome
    except Exception as error:
        return "".join(traceback.format_exception_only(error)).strip()
    return "no error"


def test_there_are_twenty() -> None:
    assert [int(each["number"]) for each in MISTAKES] == list(range(1, 21))
    assert TEXT.count("\n## ") == 20


async def test_mistakes_in_code(caplog: pytest.LogCaptureFixture) -> None:
    namespace: dict[str, Any] = {"__name__": "reports"}
    exec(compile(file(), "reports.py", "exec"), namespace)
    found, told = {}, {}
    async with harness(namespace["app"]):
        for each in MISTAKES:
            if each["kind"] == "sh":
                continue
            caplog.clear()
            with caplog.at_level(logging.ERROR):
                said = await make(each["code"], namespace)
            found[each["number"]] = caplog.messages[0] if said == "no error" and caplog.messages else said
            told[each["number"]] = each["told"]
    assert found == told


def test_mistakes_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "reports.py").write_text(file())
    (tmp_path / "empty.py").write_text("import duetime\n\napp = duetime.App()\n")
    found, told = {}, {}
    for each in MISTAKES:
        if each["kind"] == "sh":
            code, command = run(tmp_path, *each["code"].split()[1:])
            assert code == 2, command
            found[each["number"]], told[each["number"]] = only_line(command), each["told"]
    assert found == told
