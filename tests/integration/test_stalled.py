"""A task that blocks the event loop for good: that it can be seen from outside, and that the process can be ended."""

import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError

import pytest

from duetime.clock import monotonic_from
from duetime.telemetry.pulse import Pulse

ROOT = Path(__file__).parents[2]


def answer(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as found:
            return found.status, found.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.mark.parametrize("how", ["sleep", "read"])
def test_a_blocked_event_loop_is_seen_and_the_second_signal_ends_it(tmp_path: Path, how: str) -> None:
    with (
        (tmp_path / "err").open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.stuck", str(tmp_path), how],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            assert answer(port, "/livez") == (200, "ok\n")
            (tmp_path / "go").touch()
            until(lambda: answer(port, "/livez")[0] == 503, "the probe fails")
            assert "the event loop has been blocked for" in answer(port, "/livez")[1]
            stalled = re.search(r"^duetime_event_loop_stalled_seconds (\S+)", answer(port, "/metrics")[1], re.MULTILINE)
            assert stalled is not None and float(stalled[1]) > 1
            blocking = "time.sleep(3600)" if how == "sleep" else ".read("
            until(lambda: blocking in (tmp_path / "err").read_text(), "the log says where it stands")
            process.send_signal(signal.SIGINT)
            until(lambda: "a second signal" in (tmp_path / "err").read_text(), "the first signal is answered")
            assert process.poll() is None, "one signal lets it finish"
            process.send_signal(signal.SIGINT)
            assert process.wait(5) == 128 + signal.SIGINT
        finally:
            process.kill()


def test_where_the_event_loop_stands_is_told_once_each_time(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    with monotonic_from(lambda: now):
        pulse = Pulse()
        assert (pulse.stalled, pulse.is_dead) == (0.0, False)
        now += 100
        pulse.log_stall()
        assert caplog.messages == [], "it has not begun"
        pulse.stamp()
        now += 6
        pulse.log_stall()
        pulse.log_stall()
        [told] = caplog.messages
        assert "been blocked for 6.0 s" in told and "process=True" in told
        assert "test_where_the_event_loop_stands_is_told_once_each_time" in told, "the stack is there"
        assert not pulse.is_dead
        now += 25
        assert pulse.is_dead
        pulse.stamp()
        assert "runs again, after 31.0 s" in caplog.messages[-1] and not pulse.is_dead
        now += 6
        pulse.log_stall()
        assert "been blocked" in caplog.messages[-1]
