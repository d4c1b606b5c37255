"""What `make` passes on to the programs that it starts."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """An installed environment, whose `duetime` prints what it was given."""
    command = tmp_path / "bin" / "duetime"
    command.parent.mkdir()
    command.write_text('#!/bin/sh\necho "$DUETIME_DATA_DIR" "$@"\n')
    command.chmod(0o755)
    (tmp_path / "bin" / "python").touch()
    (tmp_path / ".runtime").touch()
    return tmp_path


def make_up(venv: Path, *variables: str, **environ: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name not in ("DATA_DIR", "DUETIME_DATA_DIR")}
    command = ["make", "--silent", "up", f"VENV={venv}", "APP=shop:app", *variables]
    done = subprocess.run(command, cwd=ROOT, env=kept | environ, capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.strip()


def test_up_leaves_the_folder_to_the_settings(venv: Path) -> None:
    assert make_up(venv) == "up shop:app"
    assert make_up(venv, DUETIME_DATA_DIR="/srv/jobs") == "/srv/jobs up shop:app"


def test_a_folder_that_make_is_given_comes_first(venv: Path) -> None:
    given = make_up(venv, "DATA_DIR=/srv/here", DUETIME_DATA_DIR="/srv/jobs")
    assert given == "/srv/jobs up shop:app --data-dir /srv/here"
