"""The names that `import duetime` gives."""

import subprocess
import sys

import pytest

import duetime


@pytest.mark.parametrize("name", duetime.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(duetime, name) is not None
    assert name in dir(duetime)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        duetime.nothing  # noqa: B018 - looked up for its refusal


def test_help_loads_no_server_and_no_store() -> None:
    code = (
        "import sys, duetime.cli.main;"
        "print(sorted({'asyncpg', 'aiohttp', 'uvicorn', 'grpc', 'duetime.app', 'duetime.wiring'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
