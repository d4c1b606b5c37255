"""What a program does at import, its child processes do not repeat: they refuse it, and name the guard."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

TASK = """
import asyncio, multiprocessing, os, sys
import duetime

with open("imports", "a") as imports:
    print(os.getpid(), file=imports)

app = duetime.App(database_url=os.environ["DATABASE"])

@app.task(name="triple", process=True)
def triple(n: int) -> int:
    return n * 3

async def main():
    async with app.running():
        print(await (await triple.submit(n=2)).result("60s"))
"""
STARTS = """
app.start()
try:
    print(triple.sync.submit(n=2).result("60s"))
finally:
    app.stop()
"""
SWALLOWS = """
import time

try:
    asyncio.run(main())
except BaseException as error:
    if __name__ != "__main__":
        time.sleep(100)
    raise
"""
GUARDED = """
if __name__ == "__main__":
    asyncio.run(main())
"""
CULPRITS = ("app.start()", "asyncio.run(main())")
REMEDY = 'put this below `if __name__ == "__main__":`'


def program(folder: Path, database: str, text: str, **modules: str) -> "subprocess.CompletedProcess[str]":
    for name, content in {**modules, "script": text}.items():
        (folder / f"{name}.py").write_text(content)
    return subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env={**os.environ, "DATABASE": database},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


async def jobs_in(database: str) -> int:
    """How many jobs were submitted: those that wait, and those that have ended."""
    count = "select (select count(*) from jobs) + (select count(*) from history)"
    if database.startswith("sqlite"):
        with closing(sqlite3.connect(database.removeprefix("sqlite:///"))) as file:
            return int(file.execute(count).fetchone()[0])
    connection = await asyncpg.connect(database, server_settings={"search_path": "duetime"})
    try:
        return int(await connection.fetchval(count))
    finally:
        await connection.close()


@pytest.mark.parametrize("unguarded", [STARTS, "asyncio.run(main())", SWALLOWS], ids=["start", "running", "swallows"])
async def test_a_script_without_the_guard_fails_at_once_and_names_it(
    tmp_path: Path, database_url: str, unguarded: str
) -> None:
    text = TASK + unguarded
    ended = program(tmp_path, database_url, text)
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.lstrip() in CULPRITS)
    told = f"script.py:{line} starts the app when it is imported, and every child process imports it ({REMEDY})"
    assert f"triple failed, not retried: its process cannot start: {tmp_path}/{told}" in ended.stderr
    assert told in ended.stderr.splitlines()[-1], "the error of the run"
    assert len((tmp_path / "imports").read_text().split()) == 2, "the program, and one child"
    assert await jobs_in(database_url) == 1


@pytest.mark.parametrize(
    "use",
    [
        "triple.sync.submit(n=1)",
        'app.sync.schedule(triple.bind(n=1), cron="0 0 * * *", key="daily")',
        "asyncio.run(triple.submit(n=1))",
        "asyncio.run(app.store())",
        'duetime.Client("http://127.0.0.1:1", "key").list_jobs()',
    ],
)
def test_a_child_that_imports_a_script_uses_no_app_and_no_client(tmp_path: Path, use: str) -> None:
    """Here the program has the guard, for what it starts, but not for one more line."""
    database = f"sqlite:///{tmp_path}/jobs.db"
    only_there = f"if __name__ != '__main__':\n    {use}\n"
    ended = program(tmp_path, database, TASK + only_there + GUARDED)
    assert REMEDY in ended.stderr.splitlines()[-1], ended.stderr
    assert "StoreLocked" not in ended.stderr


def test_a_module_that_starts_its_app_when_a_child_imports_it_names_another_remedy(tmp_path: Path) -> None:
    shop = TASK + "if multiprocessing.parent_process() is not None:\n    triple.sync.submit(n=1)\n"
    command = "import asyncio, sys\nif __name__ == '__main__':\n    import shop\n    asyncio.run(shop.main())\n"
    ended = program(tmp_path, f"sqlite:///{tmp_path}/jobs.db", command, shop=shop)
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("triple failed, not retried: ")]
    assert f"{tmp_path}/shop.py:18 submits or reads jobs when it is imported, and child processes import it (" in line
    assert "or that has @app.on_start)" in line


def test_a_child_of_the_users_own_is_refused_by_an_error(tmp_path: Path) -> None:
    own = """
if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=print, args=("ran",))
    child.start()
    child.join()
else:
    try:
        app.start()
    except duetime.Conflict as error:
        print(type(error).__name__, error, flush=True)
"""
    ended = program(tmp_path, f"sqlite:///{tmp_path}/jobs.db", TASK + own)
    assert ended.stdout.startswith("ImportedByChild "), ended.stderr
    assert f"starts the app when it is imported, and every child process imports it ({REMEDY})" in ended.stdout
    assert ended.stdout.endswith("ran\n"), "after its import it works"


def test_a_script_with_the_guard_works_and_its_functions_submit(tmp_path: Path, migrated: str) -> None:
    more = """
@app.task(name="parent", process=True)
def parent() -> int:
    return triple.sync.submit(n=2).result("60s")

async def main():
    async with app.running():
        print(await (await parent.submit()).result("60s"))
"""
    ended = program(tmp_path, migrated, TASK + more + GUARDED)
    assert (ended.stdout, ended.stderr) == ("6\n", "")
