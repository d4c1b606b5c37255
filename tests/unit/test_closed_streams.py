"""Commands whose standard input or output is closed, as some supervisors start them: `sys.stdin` is None then."""

import sys
from pathlib import Path
from typing import Any, cast

import pytest

from duetime.cli.server_commands import ServerCommand, read_lines
from duetime.errors import InvalidInput


@pytest.mark.parametrize("closed", ["stdin", "stderr"])
def test_nobody_is_asked(monkeypatch: pytest.MonkeyPatch, closed: str) -> None:
    monkeypatch.setattr(sys, closed, None)
    assert ServerCommand(cast(Any, None), "text").must_confirm(yes=False) is False


def test_nothing_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InvalidInput, match="standard input is closed"):
        read_lines(Path("-"))
