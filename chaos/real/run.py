"""One run on real processes: start, load, strike, quiet, then the product's account of what became of everything."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from pathlib import Path
from random import Random

from chaos.client import Client
from chaos.history import Files, read
from chaos.real.bouncer import Bouncer
from chaos.real.clocks import CACHED, DatabaseClock, library
from chaos.real.cluster import LEASE, SLOTS, Cluster
from chaos.real.database_faults import make_standby
from chaos.real.disk import small_disk, temporary_folders_on
from chaos.real.faults import Faults, Strike, schedule
from chaos.real.http import app_over_http
from chaos.real.lies import Liar
from chaos.real.workload import Workload
from chaos.scenarios import Scenario
from chaos.tasks import add_tasks
from duetime import App, Settings, StoreError
from duetime.store.opening import open_ready, store_for
from tests.support.postgres import Server, installed

BOUND = 15.0
RECOVERY = LEASE + 15.0
_ASKED_ABOUT = 3_000
_DRAIN = 120.0
_DISK = "1500m"


async def run(logs: Path, scenario: Scenario, *, seed: int, workers: int = 3) -> None:
    """Everything that happens is in `logs` afterwards."""
    writer = Files(logs)
    base = time.time() - time.monotonic()
    strikes = schedule(Random(f"faults {seed}"), scenario)
    with tempfile.TemporaryDirectory(prefix="duetime-chaos-") as folder, _disk(scenario, Path(folder)) as disk:
        Path(folder).chmod(0o711)  # PostgreSQL runs as somebody else
        with temporary_folders_on(disk):
            server = Server(installed()[0])
        clock = DatabaseClock(server)
        try:
            clock.start()
            dsn = server.create_database("chaos")
            store = store_for(Settings(database_url=dsn))
            await open_ready(store, migrate=True)
            await store.close()
            bouncer = Bouncer(server, Path(folder)) if scenario.pooled else None
            cluster = Cluster(server, dsn, Path(folder), logs, servers=2, workers=workers, bouncer=bouncer)
            try:
                if bouncer is not None:
                    bouncer.start()
                if scenario.standby is not None:
                    synchronous = scenario.standby == "synchronous"
                    cluster.spares.append(await asyncio.to_thread(make_standby, server, synchronous=synchronous))
                await cluster.start(preload=library() if {"node clock", "node drift"} & set(scenario.kinds) else None)
                liar = Liar(writer, Random(seed))
                with liar.corrupting():
                    faults = Faults(cluster, clock, liar, writer, disk)
                    await _drive(cluster, faults, strikes, writer, base, seed, scenario, workers * SLOTS)
            finally:
                await cluster.close()
                if bouncer is not None:
                    bouncer.kill()
                for member in cluster.members:
                    text = (Path(folder) / f"{member.name}.log").read_text(errors="replace")
                    (logs / f"{member.name}.log").write_text(text)
        finally:
            server.close()
            writer.close()


def _disk(scenario: Scenario, folder: Path) -> AbstractContextManager[Path]:
    return small_disk(folder, _DISK) if "disk full" in scenario.kinds else nullcontext(folder)


async def _drive(
    cluster: Cluster,
    faults: Faults,
    strikes: Sequence[Strike],
    writer: Files,
    base: float,
    seed: int,
    scenario: Scenario,
    slots: int,
) -> None:
    app = App(settings=Settings(database_url=cluster.client.dsn, pool_size=10, **cluster.settings))
    add_tasks(app, writer, time.monotonic, "client")
    client = Client(app, writer, time.monotonic)
    async with app, AsyncExitStack() as stack:
        await all_up(app, len(cluster.workers))
        asking = client
        if scenario.over_http:
            through = await stack.enter_async_context(app_over_http(await app.store(), cluster.urls))
            add_tasks(through, writer, time.monotonic, "client")
            asking = Client(through, writer, time.monotonic)
        workload = Workload(asking, Random(f"work {seed}"), base=base, scenario=scenario)
        working = asyncio.create_task(workload.run())
        began = time.monotonic()
        striking = [asyncio.create_task(_at(began + strike.t, faults, strike)) for strike in strikes]
        await asyncio.sleep(scenario.seconds)
        await asyncio.gather(*striking)
        workload.stop()
        await working
        await drained(app, within=_DRAIN + faults.put_back)
        await workload.probe(slots)
        await drained(app, within=60.0)
        end = time.monotonic()
        setup: dict[str, object] = {
            "base": base,
            "bound": BOUND,
            "recovery": RECOVERY,
            "slots": slots,
            "end": end,
            "sampled": True,
            "clock slack": CACHED + 1.0,
            "crashes": cluster.crashes(),
        }
        writer.write("setup", setup)
        client.jobs |= asking.jobs
        await _tell(client, writer, seed)


async def _at(t: float, faults: Faults, strike: Strike) -> None:
    await asyncio.sleep(max(0.0, t - time.monotonic()))
    await faults.strike(strike)


async def all_up(app: App, workers: int) -> None:
    """What is asked for while nobody is there yet would count as late."""
    store = await app.store()
    async with asyncio.timeout(_DRAIN):
        while len(await store.workers()) < workers:
            await asyncio.sleep(0.1)


async def drained(app: App, *, within: float) -> bool:
    """Wait until nothing is left to run, or the time is over: the checker will say what was left."""
    store = await app.store()
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        with contextlib.suppress(StoreError):
            counts = await store.counts()
            if counts.runs == 0:
                return True
        await asyncio.sleep(0.1)
    return False


async def _tell(client: Client, writer: Files, seed: int) -> None:
    """Ask about all that is not one of very many, all that nobody saw the end of, and some of the rest."""
    logs = read(writer.folder)
    ended = {record["nonce"] for record in logs["seen"] if record["what"] == "end" and record["how"] == "done"}
    done = {record["tag"] for record in logs["seen"] if record["what"] == "start" and record["nonce"] in ended}
    many = [tag for tag in client.jobs if tag.startswith("many-")]
    asked = {tag for tag in client.jobs if not tag.startswith("many-") or tag not in done}
    asked |= set(Random(seed).sample(many, min(_ASKED_ABOUT, len(many))))
    waiting = sorted(asked)
    lanes = [waiting[place::8] for place in range(8)]
    await asyncio.gather(*(_tell_some(client, lane) for lane in lanes))


async def _tell_some(client: Client, tags: list[str]) -> None:
    for tag in tags:
        await client.tell_end(tag, client.jobs[tag])
