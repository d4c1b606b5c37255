"""A rolling restart from one schema version to the next: a copy of duetime with one migration more stands for the next
release, migrates the database under load, and takes the place of one process after the other."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic

from chaos.real.cluster import ROOT, Cluster, Member
from duetime.store.postgres.schema import VERSION

_MIGRATION = """-- What a next release may add: it expands, and old code goes on beside it.
alter table duetime.jobs add column of_the_next_release text;
alter table duetime.runs add column of_the_next_release integer not null default 0;
create table duetime.of_the_next_release (id integer primary key);
create index runs_of_the_next_release on duetime.runs (of_the_next_release) where of_the_next_release > 0;
"""
_COMMAND = "from duetime.cli.main import main; main()"
_TIMEOUT = 20.0


def make_next_release(folder: Path) -> Path:
    """Returns where it lies."""
    place = folder / "next"
    shutil.copytree(ROOT / "src" / "duetime", place / "duetime", ignore=shutil.ignore_patterns("__pycache__"))
    file = place / "duetime" / "store" / "postgres" / "migrations" / f"{VERSION + 1:04}_of_the_next_release.sql"
    file.write_text(_MIGRATION)
    return place


async def roll(cluster: Cluster) -> None:
    code = await asyncio.to_thread(make_next_release, cluster.folder)
    await asyncio.to_thread(_migrate, cluster, code)
    for member in cluster.members:
        member.code = code
        await _replace(member)


def _migrate(cluster: Cluster, code: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, "migrate", "--database-url", cluster.dsn],
        cwd=cluster.folder,
        env={**os.environ, "PYTHONPATH": str(code)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the next release cannot migrate: {done.stdout}{done.stderr}")


async def _replace(member: Member) -> None:
    """Ask it to end, and wait until it has been started again."""
    before = member.deaths
    member.send(signal.SIGTERM)
    deadline = monotonic() + _TIMEOUT
    while member.deaths == before:
        if monotonic() > deadline:
            raise RuntimeError(f"{member.name} did not end within {_TIMEOUT:g} s")
        await asyncio.sleep(0.1)
    await asyncio.sleep(1.0)
