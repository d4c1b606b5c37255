"""Shell targets: only what the operator allows, as data, within limits, and nothing left behind."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from duetime.errors import InvalidInput, SettingsError
from duetime.targets.commands import read_commands
from tests.support.targeting import Targeting, targeting
from tests.support.waiting import eventually

PYTHON = json.dumps(sys.executable)
DETACH = json.dumps(
    """
import os, pathlib, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        os.setsid()
        fresh = pathlib.Path(sys.argv[1] + ".new")
        fresh.write_text(str(os.getpid()))
        fresh.rename(sys.argv[1])
        time.sleep(300)
    os._exit(0)
os.wait()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
time.sleep(float(sys.argv[2]))
"""
)
"""A process of another session, whose parents have gone: nothing leads from the command to it."""
COMMANDS = f"""
[say]
argv = [{PYTHON}, "-c", "import sys; print(sys.argv[1:])", "--name={{name}}", "{{file}}", "a {{name}} b {{name}}"]

[dated]
argv = ["/bin/echo", "{{day}}"]
values = {{ day = "[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}" }}

[fail]
argv = ["/bin/sh", "-c", "echo out; echo wrong >&2; exit 3"]

[noisy]
argv = ["/bin/sh", "-c", "yes | head -c 3000000; echo the end"]

[missing]
argv = ["/nowhere/at/all"]

[environment]
argv = ["/usr/bin/env"]
folder = "/"

[family]
argv = ["/bin/sh", "-c", "sleep 300 & echo $! > '{{file}}'; sleep 300 & wait"]

[orphan]
argv = ["/bin/sh", "-c", "sleep 300 & echo $! > '{{file}}'"]

[detached]
argv = [{PYTHON}, "-c", {DETACH}, "{{file}}", "{{seconds}}"]

[crash]
argv = ["/bin/sh", "-c", "kill -SEGV $$"]

[hungry]
argv = [{PYTHON}, "-c", "x = bytearray(800_000_000); print(len(x))"]
memory = "300MiB"

[busy]
argv = [{PYTHON}, "-c", "while True: pass"]
cpu = "1s"

[big]
argv = [{PYTHON}, "-c", "open('{{file}}', 'wb').write(b'x' * 5_000_000)"]
file_size = "1MiB"

[files]
argv = ["/bin/sh", "-c", "ulimit -n; ulimit -c; ps -o pgid= -p $$; echo $$; pwd"]
files = 64
folder = "/tmp"
"""


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    path = tmp_path / "commands.toml"
    path.write_text(COMMANDS)
    return path


@pytest.fixture
async def shell(tmp_path: Path, commands: Path) -> AsyncIterator[Targeting]:
    async with targeting(f"sqlite:///{tmp_path}/duetime.db", shell_commands=commands) as found:
        yield found


def target(command: str, **args: object) -> dict[str, object]:
    return {"type": "shell", "command": command, "args": args}


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


@pytest.mark.parametrize(
    "value",
    ["plain", "two words", "$(touch /tmp/x)", "`id`", "; rm -rf /", "a\nb", "'\"\\", "{file}", "*", "ünïcode"],
)
async def test_values_are_data_never_syntax(shell: Targeting, value: str) -> None:
    run = await shell.ended(target=target("say", name=value, file="f"))
    assert run["status"] == "SUCCEEDED", run["error"]
    assert eval(run["result"]["stdout"]) == [f"--name={value}", "f", f"a {value} b {value}"]
    assert (run["result"]["exit_code"], run["task"]) == (0, "duetime.shell/say")


@pytest.mark.parametrize(
    ("command", "args", "field"),
    [
        ("rm", {}, "target.command"),
        ("/bin/sh", {}, "target.command"),
        ("say", {"name": "x"}, "target.args.file"),
        ("say", {"name": "x", "file": "f", "more": 1}, "target.args.more"),
        ("say", {"name": "x", "file": "-rf"}, "target.args.file"),
        ("say", {"name": "a\x00b", "file": "f"}, "target.args.name"),
        ("dated", {"day": "yesterday"}, "target.args.day"),
        ("dated", {"day": "2026-01-01; id"}, "target.args.day"),
    ],
)
async def test_what_cannot_be_run_is_refused_at_submission(
    shell: Targeting, command: str, args: dict[str, object], field: str
) -> None:
    answer = await shell.api.post("/v1/jobs", {"target": target(command, **args)})
    assert (answer.status, answer.json["field"]) == (422, field), answer.json
    assert answer.json["remedy"]


async def test_it_is_off_unless_the_operator_lists_commands(tmp_path: Path) -> None:
    async with targeting(f"sqlite:///{tmp_path}/duetime.db") as targets:
        answer = await targets.api.post("/v1/jobs", {"target": target("say")})
        assert (answer.status, answer.json["field"]) == (422, "target.command")
        assert "shell_commands" in answer.json["remedy"]


async def test_exit_code_and_tails_are_kept(shell: Targeting) -> None:
    run = await shell.ended(target=target("fail"))
    assert (run["status"], run["failure"]) == ("FAILED", "error")
    assert run["error"] == "the command exited with code 3: wrong"
    run = await shell.ended(target=target("noisy"))
    assert run["result"]["stdout"].endswith("y\nthe end\n") and len(run["result"]["stdout"]) <= 8 * 1024
    run = await shell.ended(target=target("missing"), retries=3)
    assert (run["status"], run["attempt"]) == ("FAILED", 1), "trying again is of no use"
    assert "cannot run" in run["error"]


async def test_the_environment_is_not_the_workers(shell: Targeting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_ENCRYPTION_KEYS", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    run = await shell.ended(target=target("environment"))
    said = dict(line.partition("=")[::2] for line in run["result"]["stdout"].splitlines())
    assert said.keys() <= {"PATH", "LANG", "PWD", "DUETIME_RUN", "DUETIME_JOB", "DUETIME_ATTEMPT", "DUETIME_DUE_AT"}
    assert (said["DUETIME_RUN"], said["DUETIME_ATTEMPT"]) == (run["run_id"], "1")


async def test_the_whole_group_is_killed_at_the_timeout(shell: Targeting, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    for timeout in ("1s", "5s", "25s"):  # the first may be over before the command has begun
        run = await shell.ended(target=target("family", file=str(file)), timeout=timeout)
        assert (run["status"], run["failure"]) == ("FAILED", "timeout")
        if file.exists() and file.read_text().strip():
            break
    await eventually(lambda: gone(int(file.read_text())))


async def test_what_a_command_leaves_behind_is_killed(shell: Targeting, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    async with asyncio.timeout(20):
        run = await shell.ended(target=target("orphan", file=str(file)))
    assert run["status"] == "SUCCEEDED"
    await eventually(lambda: gone(int(file.read_text())))


async def test_cancelling_kills_it(shell: Targeting, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    run_id = await shell.submit(target=target("family", file=str(file)))
    await eventually(lambda: file.exists() and file.read_text().strip())
    await shell.api.post(f"/v1/runs/{run_id}/cancel")
    assert (await shell.until(run_id))["status"] == "CANCELLED"
    await eventually(lambda: gone(int(file.read_text())))


async def test_a_process_that_has_detached_itself_ends_with_its_command(shell: Targeting, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    run = await shell.ended(target=target("detached", file=str(file), seconds=0))
    assert run["status"] == "SUCCEEDED", run["error"]
    assert gone(int(file.read_text())), "it is gone before the run has ended"


async def test_a_process_that_has_detached_itself_ends_when_it_is_cancelled(shell: Targeting, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    run_id = await shell.submit(target=target("detached", file=str(file), seconds=300))
    await eventually(file.exists)
    await shell.api.post(f"/v1/runs/{run_id}/cancel")
    assert (await shell.until(run_id))["status"] == "CANCELLED"
    await eventually(lambda: gone(int(file.read_text())))


async def test_a_process_that_has_detached_itself_ends_at_the_timeout(shell: Targeting, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    for timeout in ("500ms", "2s", "5s", "25s"):  # the first may be over before the command has begun
        run = await shell.ended(target=target("detached", file=str(file), seconds=300), timeout=timeout)
        assert (run["status"], run["failure"]) == ("FAILED", "timeout")
        if file.exists():
            break
    assert gone(int(file.read_text()))


async def test_the_end_by_a_signal_is_told(shell: Targeting) -> None:
    run = await shell.ended(target=target("crash"))
    assert (run["status"], run["error"]) == ("FAILED", "the command was killed by SIGSEGV")


async def test_limits_hold(shell: Targeting, tmp_path: Path) -> None:
    hungry = await shell.ended(target=target("hungry"))
    assert hungry["status"] == "FAILED" and "MemoryError" in hungry["error"]
    busy = await shell.ended(target=target("busy"))
    assert (busy["status"] == "FAILED" and "SIGKILL" in busy["error"]) or "SIGXCPU" in busy["error"]
    file = tmp_path / "big"
    big = await shell.ended(target=target("big", file=str(file)))
    assert big["status"] == "FAILED" and file.stat().st_size <= 1024**2
    run = await shell.ended(target=target("files"))
    files, core, group, pid, folder = run["result"]["stdout"].split()
    assert (files, core, folder) == ("64", "0", "/tmp")
    assert group == pid, "it leads a group of its own"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user: run the tests as root")
async def test_it_runs_as_another_user(tmp_path: Path) -> None:
    commands = tmp_path / "commands.toml"
    commands.write_text('[who]\nargv = ["/usr/bin/id", "-un"]\nuser = "nobody"\n')
    async with targeting(f"sqlite:///{tmp_path}/duetime.db", shell_commands=commands) as shell:
        run = await shell.ended(target=target("who"))
    assert run["result"]["stdout"].strip() == "nobody"


@pytest.mark.parametrize(
    "text",
    [
        "not toml",
        "[a]\n",
        '[a]\nargv = "ls"\n',
        '[a]\nargv = ["ls"]\n',
        '[a]\nargv = ["{program}"]\n',
        '[a]\nargv = ["/bin/ls"]\nmemory = "lots"\n',
        '[a]\nargv = ["/bin/ls"]\nshell = true\n',
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "commands.toml"
    path.write_text(text)
    with pytest.raises(SettingsError) as refused:
        read_commands(path)
    assert refused.value.field == "shell_commands"


def test_without_a_file_there_is_no_command() -> None:
    with pytest.raises(InvalidInput):
        read_commands(None).command("say")
