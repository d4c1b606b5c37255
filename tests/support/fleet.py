"""Real processes: `duetime worker` and `duetime server`, started, killed, stopped and started again by tests."""

import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TextIO

import asyncpg

from duetime.engine.intake import prepare
from duetime.ids import new_id, show
from duetime.model.access import NewKey, Role
from duetime.model.job import DEFAULT_TENANT, Submitted
from duetime.model.key_text import new_key_text
from duetime.store.postgres import PostgresStore
from tests.support import launcher
from tests.support.fleet_tasks import TABLE
from tests.support.launcher import ROOT
from tests.support.waiting import eventually
from tests.support.working import ENCRYPTION

APP = "tests.support.fleet_tasks:app"


class Process:
    """One duetime process, in a session of its own, its output kept in a file."""

    def __init__(self, arguments: Sequence[str], environment: dict[str, str], log: Path) -> None:
        self.log = log
        self._output: TextIO = log.open("a")
        self.popen = launcher.start(arguments, ROOT, environment, self._output.fileno(), self._output.fileno())

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def running(self) -> bool:
        return self.popen.poll() is None

    def send(self, kind: signal.Signals) -> None:
        self.popen.send_signal(kind)

    def kill(self) -> None:
        """Kill the process and what it has spawned, if they live; a stopped one too."""
        if self.running:
            os.killpg(self.pid, signal.SIGKILL)
            self.popen.wait(10)

    def close(self) -> None:
        self.kill()
        self._output.close()

    def output(self) -> str:
        return self.log.read_text()

    async def ended(self, within: float = 60.0) -> int:
        """Wait for its end; returns the exit code."""
        await eventually(
            lambda: not self.running, within=within, what=lambda: f"end of {self.popen.args!r}: {self.output()}"
        )
        return self.popen.wait()


class Fleet:
    """Processes on one database, and a store of the test's own to look at it."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self.dsn = dsn
        self._folder = folder
        self.processes: list[Process] = []
        self.store = PostgresStore(dsn, pool_size=4)

    def worker(self, **settings: object) -> Process:
        return self._start(["worker", APP], settings)

    def server(self, **settings: object) -> Process:
        return self._start(["server"], settings)

    def remote_worker(self, url: str, key: str, **settings: object) -> Process:
        """A worker that knows a server and its key, and no database."""
        return self._start(["worker", APP], {"database_url": "", "url": url, "key": key, **settings})

    async def key(self, role: Role) -> str:
        """The text of a new key."""
        made = new_key_text()
        tenant_id = None if role is Role.ROOT else DEFAULT_TENANT
        await self.store.access.create_key(NewKey(new_id(), tenant_id, role, "test", made.hash, made.hint))
        return made.text

    async def submit(self, task: str, batch: Sequence[dict[str, Any]], **options: Any) -> list[str]:
        """Submit jobs for now; returns the ids of their runs."""
        jobs = [prepare(task=task, args=args, max_payload=1 << 18, **options) for args in batch]
        answers: list[Submitted] = await self.store.intake.submit(DEFAULT_TENANT, jobs)
        return [show("run", answer.run_id) for answer in answers if answer.run_id is not None]

    async def fetch(self, query: str, *arguments: object) -> list[asyncpg.Record]:
        async with self.store.database.connection() as connection:
            return await connection.fetch(query, *arguments)

    async def value(self, query: str, *arguments: object) -> Any:
        return (await self.fetch(query, *arguments))[0][0]

    async def effects(self, what: str) -> int:
        return int(await self.value("select count(*) from effects where what = $1", what))

    async def ended(self, count: int, within: float = 60.0) -> None:
        """Wait until this many runs have ended."""

        async def enough() -> bool:
            return bool(await self.value("select count(*) from duetime.history where end_state is not null") >= count)

        await eventually(enough, within=within, what=lambda: f"{count} runs ended; {self.tails()}")

    def tails(self) -> str:
        return "\n".join(f"{process.pid}: …{process.output()[-1500:]}" for process in self.processes)

    def _start(self, arguments: list[str], settings: dict[str, object]) -> Process:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("DUETIME_")}
        environment |= {"DUETIME_DATABASE_URL": self.dsn, "DUETIME_TEST_DSN": self.dsn, "PYTHONUNBUFFERED": "1"}
        environment["DUETIME_PORT"] = "0"  # tests run side by side
        environment["DUETIME_ENCRYPTION_KEYS"] = ENCRYPTION
        # Only what the test asks for runs; and tasks whose database is away are tried again as soon as it is back.
        environment |= {"DUETIME_CANARY": "0s", "DUETIME_TARGETS": "off", "DUETIME_BREAKERS": "off"}
        environment |= {f"DUETIME_{name.upper()}": str(value) for name, value in settings.items()}
        log = self._folder / f"process-{len(self.processes)}.log"
        process = Process(arguments, environment, log)
        self.processes.append(process)
        return process


@asynccontextmanager
async def fleet_on(dsn: str, folder: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(dsn, folder)
    await fleet.store.open()
    try:
        await fleet.store.migrate()
        await fleet.fetch(TABLE)
        yield fleet
    finally:
        for process in fleet.processes:
            process.close()
        await fleet.store.close()
