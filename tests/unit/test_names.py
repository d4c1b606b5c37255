"""The names that `import duetime` gives."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import duetime


@pytest.mark.parametrize("name", duetime.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(duetime, name) is not None
    assert name in dir(duetime)


def test_every_error_that_the_client_raises_is_there() -> None:
    page = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[A-Z].*?) \|", page.partition("## Errors")[2], re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert {"InvalidInput", "NameTaken"} <= named
    assert not {name for name in named if not issubclass(getattr(duetime, name, type), duetime.DuetimeError)}


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        duetime.nothing  # noqa: B018 - looked up for its refusal


def test_help_loads_no_server_and_no_store() -> None:
    code = (
        "import sys, duetime.cli.main;"
        "late = {'asyncpg', 'aiohttp', 'uvicorn', 'grpc', 'duetime.sdk.app', 'duetime.node.assembly'};"
        "print(sorted(late & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
