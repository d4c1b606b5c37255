"""One run on real processes: start, load, strike, quiet, then the product's account of what became of everything."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from chaos import stuck
from chaos.client import Client
from chaos.history import Files, read
from chaos.mutants import MUTANTS
from chaos.real import brokers
from chaos.real.activities import Activities, add_hostile_tasks
from chaos.real.bouncer import Bouncer
from chaos.real.clocks import CACHED, DatabaseClock, until_midnight
from chaos.real.cluster import LEASE, SLOTS, Cluster
from chaos.real.database_faults import damages, make_standby
from chaos.real.disk import small_disk, temporary_folders_on
from chaos.real.environment import DEATHS, KEY, LIES, MUTANT
from chaos.real.failovers import Failovers
from chaos.real.faults import Faults
from chaos.real.http import app_over_http
from chaos.real.lies import Liar
from chaos.real.patroni import Patroni
from chaos.real.points import POINTS
from chaos.real.stream_faults import StreamedQueue, StreamFaults, settled
from chaos.real.strikes import Strike, schedule
from chaos.real.workload import Workload
from chaos.retries import answered
from chaos.scenarios import Scenario
from chaos.tasks import add_tasks
from duetime import App, Settings, StoreError
from duetime.ids import show
from duetime.model.job import DEFAULT_TENANT
from duetime.model.lists import RunFilter, RunItem
from duetime.model.run import RunState
from duetime.store.address import open_ready, store_for
from duetime.store.postgres import PostgresStore
from tests.support.postgres import Server, installed

BOUND = 5.0
RECOVERY = LEASE + 10.0
CLAIM_TO_START = LEASE + 10.0
QUIET = RECOVERY + BOUND + 10.0
"""Seconds that the workload goes on after the last fault: what was due during the faults must have run meanwhile, and
what is due then must be on time."""
_ASKED_ABOUT = 3_000
_DRAIN = 120.0
_UP = 400.0
"""Seconds that all processes may take to start, on a busy machine."""
_DISK = "1500m"
_SHOWN = 20
_OTHER_ENDS = (RunState.FAILED, RunState.CANCELLED)
_CLOCKS = frozenset({"node clock", "node drift"})


async def run(
    logs: Path, scenario: Scenario, *, seed: int, workers: int = 3, quiet: float = QUIET, mutant: str | None = None
) -> None:
    """Everything that happens is in `logs` afterwards. With a mutant, every process breaks a promise."""
    writer = Files(logs)
    base = time.time() - time.monotonic()
    strikes = schedule(Random(f"faults {seed}"), scenario)
    with tempfile.TemporaryDirectory(prefix="duetime-chaos-") as folder, _disk(scenario, Path(folder)) as disk:
        Path(folder).chmod(0o711)  # PostgreSQL runs as another user
        server = _database(scenario, disk)
        clock = DatabaseClock(server)
        try:
            if isinstance(server, Patroni):
                server.start()
            else:
                clock.start()
            dsn = server.create_database("chaos")
            store = store_for(Settings(database_url=dsn, encryption_keys=(KEY,)))
            await open_ready(store, migrate=True)
            broker = None if scenario.stream is None else brokers.make(scenario.stream)
            bouncer = Bouncer(server, Path(folder)) if scenario.pooled and isinstance(server, Server) else None
            cluster = Cluster(server, dsn, Path(folder), logs, servers=2, workers=workers, bouncer=bouncer)
            try:
                if bouncer is not None:
                    bouncer.start()
                if scenario.standby is not None:
                    synchronous = scenario.standby == "synchronous"
                    cluster.spares.append(
                        await asyncio.to_thread(make_standby, cluster.postgres, synchronous=synchronous)
                    )
                for member in cluster.members:
                    member.may_kill_itself = bool({"poison", "afresh"} & set(scenario.activities)) or bool(
                        set(POINTS) & set(scenario.kinds)
                    )
                lies, deaths = Path(folder) / "lies", Path(folder) / "deaths"
                queue = None
                if broker is not None:
                    cluster.settings["encryption_keys"] = (KEY,)  # who publishes needs the key of who consumes
                    await broker.start()
                    queue = StreamedQueue(store, broker, fallback=True)
                    await queue.change(to_stream=not scenario.stored_first)
                    broker.listen()
                told = _told(scenario, lies, deaths, mutant)
                await cluster.start(told, clocks=bool(_CLOCKS & set(scenario.kinds)))
                broken = MUTANTS[mutant].broken(seed) if mutant else nullcontext()
                with Liar(writer, Random(seed), lies).corrupting(), broken:
                    faults = Faults(cluster, clock, lies, writer, disk)
                    if broker is not None and queue is not None:
                        faults.streams = StreamFaults(cluster, broker, queue, deaths, faults.record, base=base)
                    if isinstance(server, Patroni):
                        faults.failovers = Failovers(cluster, server, faults.record)
                    run = _Run(cluster, broker, faults, strikes, writer, base, seed, scenario, workers * SLOTS, quiet)
                    await run.drive()
            finally:
                await cluster.close()
                if broker is not None:
                    await broker.close()
                await store.close()
                if bouncer is not None:
                    bouncer.kill()
                for member in cluster.members:
                    text = (Path(folder) / f"{member.name}.log").read_text(errors="replace")
                    (logs / f"{member.name}.log").write_text(text)
        finally:
            server.close()
            writer.close()


def _told(scenario: Scenario, lies: Path, deaths: Path, mutant: str | None) -> dict[str, str]:
    told = {LIES: str(lies)} if "lies" in scenario.kinds else {}
    told |= {DEATHS: str(deaths)} if set(POINTS) & set(scenario.kinds) else {}
    return told | ({MUTANT: mutant} if mutant else {})


def _database(scenario: Scenario, disk: Path) -> Server | Patroni:
    if scenario.patroni is not None:
        return Patroni(disk, synchronous=scenario.patroni == "synchronous")
    with temporary_folders_on(disk):
        return Server(installed()[0])


def _disk(scenario: Scenario, folder: Path) -> AbstractContextManager[Path]:
    return small_disk(folder, _DISK) if "disk full" in scenario.kinds else nullcontext(folder)


class _Run(NamedTuple):
    cluster: Cluster
    broker: brokers.StreamBroker | None
    faults: Faults
    strikes: Sequence[Strike]
    writer: Files
    base: float
    seed: int
    scenario: Scenario
    slots: int
    quiet: float

    async def drive(self) -> None:
        settings = Settings(database_url=self.cluster.client.dsn, pool_size=10, **self.cluster.settings)
        app = App(settings=settings)
        add_tasks(app, self.writer, time.monotonic, "client")
        add_hostile_tasks(app, self.writer, "client")
        client = Client(app, self.writer, time.monotonic)
        async with app, AsyncExitStack() as stack:
            await all_up(app, len(self.cluster.workers), self.broker)
            asking = client
            if self.scenario.over_http:
                through = await stack.enter_async_context(app_over_http(await app.store(), self.cluster.urls))
                add_tasks(through, self.writer, time.monotonic, "client")
                asking = Client(through, self.writer, time.monotonic)
            workload = Workload(asking, Random(f"work {self.seed}"), base=self.base, scenario=self.scenario)
            working = asyncio.create_task(workload.run())
            activities = Activities(app, asking, Random(f"activities {self.seed}"))
            acting = asyncio.create_task(activities.run(self.scenario.activities))
            watch = stuck.StuckWatch()
            watching = asyncio.create_task(_watch_for_stuck(app, watch))
            await self._strike()
            activities.stop()
            await acting
            await asyncio.sleep(self.quiet)
            workload.stop()
            await working
            await drained(app, within=_DRAIN + self.faults.put_back, broker=self.broker)
            await workload.probe(self.slots)
            await drained(app, within=60.0, broker=self.broker)
            watching.cancel()
            end = time.monotonic()
            client.jobs |= asking.jobs
            await _tell(client, self.writer, self.seed, await _ended_otherwise(app))
            self._set_up(end, [*await _left(app), *await settled(self.broker)], watch)

    async def _strike(self) -> None:
        began, seconds = time.monotonic(), self.scenario.seconds
        if self.scenario.midnight is not None:
            seconds = min(seconds, until_midnight() + self.scenario.midnight)
        strikes = [strike for strike in self.strikes if strike.t < seconds]
        striking = [asyncio.create_task(_at(began + strike.t, self.faults, strike)) for strike in strikes]
        await asyncio.sleep(seconds)
        await asyncio.gather(*striking)
        # A clock that was put back makes everything wait that much longer.
        over = max((fault["until"] for fault in read(self.writer.folder)["faults"]), default=0.0)
        await asyncio.sleep(max(0.0, over - time.monotonic()))

    def _set_up(self, end: float, left: list[str], watch: stuck.StuckWatch) -> None:
        setup: dict[str, object] = {
            "base": self.base,
            "bound": BOUND,
            "recovery": RECOVERY,
            "claim to start": CLAIM_TO_START,
            "slots": self.slots,
            "absences": self.cluster.absences,
            "end": end,
            "sampled": True,
            "clock slack": CACHED + 1.0,
            "crashes": self.cluster.crashes(),
            "left": left,
            "unattended": watch.sightings,
            "stuck after": LEASE + stuck.LONGEST,
            "written": [text for text in (self.scenario.demands.writes,) if text and self.cluster.has_written(text)],
            "damages": damages(self.cluster.dsn),
        }
        self.writer.write("setup", setup)


async def _at(t: float, faults: Faults, strike: Strike) -> None:
    await asyncio.sleep(max(0.0, t - time.monotonic()))
    await faults.strike(strike)


async def all_up(app: App, workers: int, broker: brokers.StreamBroker | None = None) -> None:
    """Wait for the workers, and until they consume: what is asked for before would count as late."""
    store = await app.store()
    async with asyncio.timeout(_UP):
        while len(await answered(store.leases.workers)) < workers:
            await asyncio.sleep(0.1)
        if broker is not None:
            await broker.consumed()


async def drained(app: App, *, within: float, broker: brokers.StreamBroker | None = None) -> None:
    """Wait until nothing is left to run, or the time is over: the checker will say what was left."""
    store, left = await app.store(), -1
    deadline = time.monotonic() + within
    while left and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
        with contextlib.suppress(StoreError):
            # The streams first: what leaves them may land.
            left = len(await settled(broker)) + (await store.reads.counts()).runs


async def _watch_for_stuck(app: App, watch: stuck.StuckWatch) -> None:
    store = await app.store()
    assert isinstance(store, PostgresStore)
    while True:
        await asyncio.sleep(stuck.EVERY)
        with contextlib.suppress(StoreError):
            async with store.database.connection() as connection:
                watch.look(time.monotonic(), [row[0] for row in await connection.fetch(stuck.POSTGRES)])


async def _ended_otherwise(app: App) -> set[str]:
    """The jobs of all runs that did not succeed."""
    return {show("job", run.job_id) for state in _OTHER_ENDS for run in await _in_state(app, state)}


async def _left(app: App) -> list[str]:
    """What is not over, in the words of the product."""
    store = await app.store()
    found = [run for state in RunState if not state.is_end for run in await _in_state(app, state)]
    return [
        f"{run.state.name}: {await answered(partial(store.reads.run, DEFAULT_TENANT, run.id))}"
        for run in found[:_SHOWN]
    ]


async def _in_state(app: App, state: RunState) -> list[RunItem]:
    store, found = await app.store(), list[RunItem]()
    before = None
    while True:
        page = await answered(partial(store.lists.list_runs, DEFAULT_TENANT, RunFilter(state=state), before, limit=200))
        found += page.items
        before = page.next
        if before is None:
            return found


async def _tell(client: Client, writer: Files, seed: int, ended_otherwise: set[str]) -> None:
    """Ask about each job that is not one of very many, each whose end no log shows or that did not end well, and some
    of the rest."""
    logs = read(writer.folder)
    ended = {record["nonce"] for record in logs["seen"] if record["what"] == "end" and record["how"] == "done"}
    done = {record["tag"] for record in logs["seen"] if record["what"] == "start" and record["nonce"] in ended}
    many = [tag for tag in client.jobs if tag.startswith("many-")]
    asked = {tag for tag, job in client.jobs.items() if not tag.startswith("many-") or job in ended_otherwise}
    asked |= client.jobs.keys() - done
    asked |= set(Random(seed).sample(many, min(_ASKED_ABOUT, len(many))))
    waiting = sorted(asked)
    lanes = [waiting[place::8] for place in range(8)]
    await asyncio.gather(*(_tell_some(client, lane) for lane in lanes))


async def _tell_some(client: Client, tags: list[str]) -> None:
    for tag in tags:
        await client.tell_end(tag, client.jobs[tag])
