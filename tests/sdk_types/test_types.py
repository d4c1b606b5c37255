"""Type checkers know which arguments and options a call takes, and what its result is."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = ("right_calls.py", "wrong_calls.py")
MISSED_BY_MYPY = "# wrong, but mypy"
"""A plain function that returns `Any`: mypy takes it for one whose first parameter it does not know."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Errors = dict[str, dict[int, str]]
"""The first error of each line, by file."""


def of_mypy(folder: Path) -> Errors:
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--strict", "--cache-dir", str(folder)]
    files = [str(HERE / name) for name in FILES]
    told, complaint, _ = api.run([*settings, "--follow-imports", "silent", "--no-pretty", *files])
    assert not complaint
    found: Errors = {name: {} for name in FILES}
    for name, line, message in re.findall(r"(\w+\.py):(\d+): error: (.*)", told):
        found[name].setdefault(int(line), message)
    return found


def of_pyright(folder: Path) -> Errors:
    """Pyright as `basedpyright` packages it, with its own rules: it needs no download when it runs."""
    settings = {
        "include": [str(HERE / name) for name in FILES],
        "extraPaths": [str(ROOT / "src"), str(ROOT)],
        "typeCheckingMode": "standard",
        "pythonVersion": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
    config = folder / "pyrightconfig.json"
    config.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "-p", str(config), "--outputjson", "--pythonpath", sys.executable]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    answer = json.loads(told.stdout)
    assert answer["summary"]["filesAnalyzed"] == len(FILES), told.stderr
    found: Errors = {name: {} for name in FILES}
    for each in answer["generalDiagnostics"]:
        if each["severity"] == "error":
            found[Path(each["file"]).name].setdefault(each["range"]["start"]["line"] + 1, each["message"])
    return found


CHECKERS: dict[str, Callable[[Path], Errors]] = {"mypy": of_mypy, "pyright": of_pyright}


@pytest.fixture(scope="module", params=CHECKERS)
def checker(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def errors(checker: str, tmp_path_factory: pytest.TempPathFactory) -> Errors:
    return CHECKERS[checker](tmp_path_factory.mktemp(checker))


@pytest.mark.timeout(300)
def test_right_calls_are_accepted(errors: Errors) -> None:
    functions = [each for each in ast.parse((HERE / "right_calls.py").read_text()).body if isinstance(each, FUNCTIONS)]
    calls = [each for function in functions[-4:] for each in function.body if isinstance(each, ast.Expr | ast.Assign)]
    assert len(calls) >= 50
    assert errors["right_calls.py"] == {}


@pytest.mark.timeout(300)
def test_wrong_calls_are_refused(checker: str, errors: Errors) -> None:
    lines = (HERE / "wrong_calls.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if "# wrong" in line}
    assert len(marked) >= 45
    missed = {number for number in marked if MISSED_BY_MYPY in lines[number - 1]} if checker == "mypy" else set()
    assert len(missed) <= 1
    assert set(errors["wrong_calls.py"]) == marked - missed
