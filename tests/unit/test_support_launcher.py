"""What the launcher starts is what the interpreter would have started."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import Command, run
from tests.support.launcher import ROOT

APP = """
import atexit, os, sys
import duetime
print(sys.argv[1:], os.getcwd(), os.environ["DUETIME_SLOTS"], os.getpid() == os.getsid(0), __name__)
print("told", file=sys.stderr)
atexit.register(print, "ended")
{then}
"""


def started(folder: Path, then: str) -> tuple[int, Command]:
    (folder / "shop.py").write_text(APP.format(then=then))
    return run(folder, "doctor", "shop:app", environ={"DUETIME_SLOTS": "3", "PYTHONUNBUFFERED": ""})


def test_it_has_its_own_arguments_folder_environment_session_and_end(tmp_path: Path) -> None:
    code, shown = started(tmp_path, "os._exit(7)")
    assert (code, shown.stdout) == (7, ""), "what was not flushed is lost"
    code, shown = started(tmp_path, "sys.exit(9)  # longer: bytecode is told apart by size and second")
    assert code == 9
    assert shown.stdout.splitlines() == [f"['doctor', 'shop:app'] {tmp_path} 3 True shop", "ended"]
    assert shown.stderr.startswith("told")


def test_a_signal_ends_it(tmp_path: Path) -> None:
    with Command(tmp_path, "up") as up:
        up.until(lambda up: "duetime is up" in up.stdout)
        assert up.stop(signal.SIGKILL) == -signal.SIGKILL


@pytest.mark.parametrize("arguments", [["--version"], ["up", "--help"], ["fly"], ["doctor", "no.such:app"]])
def test_it_says_what_the_command_says(tmp_path: Path, arguments: list[str]) -> None:
    code, forked = run(tmp_path, *arguments)
    environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "COLUMNS": "200", "NO_COLOR": "1", "DUETIME_PORT": "0"}
    command = [sys.executable, "-m", "duetime.cli", *arguments]
    real = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert (code, forked.stdout, forked.stderr) == (real.returncode, real.stdout, real.stderr)
