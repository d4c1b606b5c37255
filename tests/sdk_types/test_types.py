"""Type checkers know which arguments and options a call takes, and what its result is."""

import re
from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).parent
MISSED = 1
"""A plain function that returns `Any`: mypy takes it for one whose first parameter it does not know."""


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """The first error of each line, by file."""
    root = HERE.parents[1]
    cache = tmp_path_factory.mktemp("mypy")
    files = [str(HERE / name) for name in ("right_calls.py", "wrong_calls.py")]
    settings = ["--config-file", str(root / "pyproject.toml"), "--cache-dir", str(cache)]
    told, complaint, _ = api.run([*settings, "--follow-imports", "silent", "--no-pretty", *files])
    assert not complaint
    found: dict[str, dict[int, str]] = {"right_calls.py": {}, "wrong_calls.py": {}}
    for name, line, message in re.findall(r"(\w+\.py):(\d+): error: (.*)", told):
        found[name].setdefault(int(line), message)
    return found


@pytest.mark.timeout(300)
def test_right_calls_are_accepted(errors: dict[str, dict[int, str]]) -> None:
    assert errors["right_calls.py"] == {}


@pytest.mark.timeout(300)
def test_wrong_calls_are_refused(errors: dict[str, dict[int, str]]) -> None:
    lines = (HERE / "wrong_calls.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert len(marked) >= 45 - MISSED
    assert set(errors["wrong_calls.py"]) == marked
