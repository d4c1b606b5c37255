"""Commands of a real `duetime up`: they cannot read its secrets, and do not outlive it, however it dies."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duetime import Client
from tests.support.command import ROOT, Command
from tests.support.served import ENCRYPTION
from tests.support.waiting import eventually
from tests.targets.test_shell import COMMANDS, PYTHON, gone

SPY = ROOT / "tests" / "support" / "spying.py"
MORE = f"""
[spy]
argv = [{PYTHON}, "{SPY}"]
"""
linux = pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc: run the tests on Linux")


@pytest.fixture
def up(tmp_path: Path, database_url: str) -> Iterator[Command]:
    commands = tmp_path / "commands.toml"
    commands.write_text(COMMANDS + MORE)
    environ = {
        "DUETIME_DATABASE_URL": database_url,
        "DUETIME_ENCRYPTION_KEYS": ENCRYPTION,
        "DUETIME_SHELL_COMMANDS": str(commands),
    }
    with Command(tmp_path, "up", "--json", "--port", "0", environ=environ) as command:
        command.until(lambda command: command.lines)
        yield command


@pytest.fixture
def client(up: Command, tmp_path: Path) -> Iterator[Client]:
    key = (tmp_path / "duetime-data" / "admin-key").read_text().strip()
    with Client(up.lines[0]["url"], key) as found:
        yield found


@linux
async def test_a_command_neither_reads_the_keys_of_its_process_nor_outlives_it(
    up: Command, client: Client, tmp_path: Path
) -> None:
    receipt = await asyncio.to_thread(client.create_job, target={"type": "shell", "command": "spy"})
    run = await asyncio.to_thread(client.wait, receipt.job_id, "20s")
    assert run.status == "SUCCEEDED", run.error
    seen = dict(line.split(": ") for line in run.result["stdout"].splitlines())
    assert str(up.pid) in seen, "it has looked at the process itself"
    assert "SECRET" not in seen.values()
    # Killed, so that the process could do nothing about it.
    file = tmp_path / "pid"
    target = {"type": "shell", "command": "detached", "args": {"file": str(file), "seconds": 300}}
    await asyncio.to_thread(client.create_job, target=target)
    await eventually(file.exists)
    os.kill(up.pid, signal.SIGKILL)
    await eventually(lambda: gone(int(file.read_text())))
    await eventually(lambda: not _speaking_of(str(file)))


def _speaking_of(text: str) -> list[int]:
    """Processes that have this in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and text.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@linux
def test_processes_of_the_same_user_cannot_look_into_it() -> None:
    """Not root, who can look into everything: there the variables are gone all the same."""
    said = _said_by("private_process")
    assert said["before"] == "SECRET", "without the measure it can be read"
    assert said["same user"] == {"environ": "Permission denied", "mem": "Permission denied"}
    assert said["itself"] == ENCRYPTION, "it has its own settings"
    assert said["its programs"] == "127.0.0.1", "which inherit what is no secret, and nothing else"
    if os.getuid() == 0:
        assert said["root"] == ""


@linux
def test_a_task_process_has_the_settings_and_shows_no_secret() -> None:
    said = _said_by("private_children")
    assert said == {"has": ENCRYPTION, "readable": False, "programs have": "\n"}


def _said_by(script: str) -> Any:
    environ = {**os.environ, "DUETIME_ENCRYPTION_KEYS": ENCRYPTION, "DUETIME_HOST": "127.0.0.1"}
    command = [sys.executable, "-m", f"tests.support.{script}"]
    done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
