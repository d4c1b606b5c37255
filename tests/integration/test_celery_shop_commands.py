"""The same day at the shop with Celery and after the migration, each with the processes of its Procfile."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.integration.test_celery_shop import DAY, SHOP
from tests.support.postgres import free_port
from tests.support.redis_server import RedisServer
from tests.support.working import ENCRYPTION

TIMEOUT = 90.0


@contextmanager
def running(name: str, command: list[str], folder: Path, environ: dict[str, str]) -> Iterator[Path]:
    log = folder / f"{name}.log"
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield log
        assert process.poll() is None, f"{name} ended: {log.read_text()}"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(TIMEOUT)
        finally:
            process.kill()
            process.wait()


def day(folder: Path, version: str, **given: str) -> object:
    """Start what the Procfile of the version names, and print what a day at the shop gives."""
    shutil.copytree(SHOP / version, folder, dirs_exist_ok=True)
    environ = os.environ | {"SHOP_DATABASE": str(folder / "shop.db"), "PYTHONPATH": str(folder)} | given
    with ExitStack() as stack:
        logs = []
        for line in (folder / "Procfile").read_text().splitlines():
            name, _, command = line.partition(": ")
            program, *arguments = command.split()
            module = {"celery": "celery", "duetime": "duetime.cli"}[program]
            whole = [sys.executable, "-m", module, *arguments]
            if name == "release":
                subprocess.run(whole, cwd=folder, env=environ, check=True, timeout=TIMEOUT, capture_output=True)
            else:
                logs.append(stack.enter_context(running(name, whole, folder, environ)))
        done = subprocess.run(
            [sys.executable, str(SHOP / "day.py")],
            cwd=folder, env=environ, capture_output=True, text=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
        told = [done.stderr, *(log.read_text() for log in logs)]
        assert done.returncode == 0, "\n".join(told)
    return json.loads(done.stdout)


def test_with_celery(tmp_path: Path) -> None:
    if (missing := RedisServer.missing()) is not None:
        pytest.skip(missing)
    with RedisServer() as redis:
        assert day(tmp_path, "before", BROKER_URL=redis.address) == DAY


def test_after_the_migration(tmp_path: Path, database: str) -> None:
    given = {"DUETIME_DATABASE_URL": database, "DUETIME_ENCRYPTION_KEYS": ENCRYPTION, "DUETIME_PORT": str(free_port())}
    assert day(tmp_path, "after", **given) == DAY
