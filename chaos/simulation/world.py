"""One seed, from its plan to its logs: first faults, then quiet, then what became of everything."""

import asyncio
import contextlib
import gc
import random as chance
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from uuid import UUID

from chaos import stuck
from chaos.client import Client
from chaos.history import Memory
from chaos.simulation import plan as plans
from chaos.simulation.database import EPOCH, make_store
from chaos.simulation.loop import Process, VirtualLoop
from chaos.simulation.network import DEADLINE, Front, Link, Weather
from chaos.simulation.node import LEASE, SETTINGS, SLOTS, Node
from chaos.simulation.plan import Ask, Fault, Plan, make_plan
from chaos.tasks import add_tasks
from duetime import App, clock, ids
from duetime.engine import reaper
from duetime.model import completion
from duetime.store.shared import health_reporter, known_lanes
from duetime.worker import claimer, progress_reports, worker

BOUND = 20.0
RECOVERY = 2 * LEASE.total_seconds() + 30.0
BASE = EPOCH.timestamp()
_AT_LEAST = 1.0
"""Seconds that a fault lasts at least when it had to wait for a node that it can strike."""
_TIMEOUT = 60
"""Seconds for which bad weather stays until a call has met it."""
_LAST_WORDS = 2.0
"""The longest that a line which is cut still carries what is asked, though no answers."""


class World:
    def __init__(self, seed: int, *, faults: int = 5, share: float = 1.0, pauses: int = 0) -> None:
        self.seed = seed
        self.history = Memory()
        self.struck: Counter[str] = Counter()
        """Faults that really hit something, by kind."""
        self.crashes: list[str] = []
        self._stuck = stuck.StuckWatch()
        self._random = Random(f"duetime {seed}")
        self.plan: Plan = make_plan(Random(f"plan {seed}"), base=BASE, faults=faults, share=share, pauses=pauses)
        self._server = Process("database")
        self._person = Process("client")
        self.loop = VirtualLoop(self._random, self._server)
        self._store, self._clock = make_store(self.loop, self._server, self._random)
        self._nodes = [
            Node(f"n{number}", self.loop, self._server, self._store, self.history, self._random, self._node_failed)
            for number in range(plans.NODES)
        ]
        self._weather = Weather()
        self._link = Link(self.loop, self._person, self._server, self._store, self._weather, self._random)
        self._app = App(settings=SETTINGS)
        add_tasks(self._app, self.history, self.loop.time, "client")
        self._client = Client(self._app, self.history, self.loop.time)

    def run(self) -> Memory:
        with _chance_from(self.seed, self.loop), _quiet_loop(self.loop):
            main = self._person.spawn(self.loop, self._main())
            self.loop.run_until_complete(main)
            self._nodes.clear()
            self.loop.bury()
        self.history.logs["setup"][0]["crashes"] = self.crashes
        return self.history

    async def _main(self) -> None:
        await self._store.open()
        await self._store.migrate()
        setup = {"base": BASE, "bound": BOUND, "recovery": RECOVERY, "slots": plans.NODES * SLOTS, "end": self.plan.end}
        found = {"unattended": self._stuck.sightings, "stuck after": LEASE.total_seconds() + stuck.LONGEST}
        self.history.write("setup", {**setup, **found})
        self._server.spawn(self.loop, self._watch_for_stuck())
        for node in self._nodes:
            node.start()
        with self._app.using_store(self._link):
            for fault in self.plan.faults:
                self._server.spawn(self.loop, self._strike(fault))
            by_tag: dict[str, list[Ask]] = {}
            for ask in self.plan.asks:
                by_tag.setdefault(ask.tag, []).append(ask)
            asking = [asyncio.ensure_future(self._ask_all(asks)) for asks in by_tag.values()]
            await asyncio.gather(*asking)
            await self._until(self.plan.probe_at)
            probes = [f"probe-{number}" for number in range(plans.NODES * SLOTS)]
            await self._client.submit_many(probes, seconds=(60.0,))
            await self._until(self.plan.end)
            await self._client.tell_ends()

    # What the client does.

    async def _ask_all(self, asks: list[Ask]) -> None:
        for ask in asks:
            await self._until(ask.t)
            await self._ask(ask)

    async def _ask(self, ask: Ask) -> None:
        client, options = self._client, dict(ask.options)
        match ask.what:
            case "submit":
                await self._submit(ask.tag, options)
            case "batch":
                tags = [f"{ask.tag}-{place}" for place in range(options["count"])]
                await client.submit_many(tags, seconds=options.get("seconds", (0.0,)))
            case "schedule":
                await client.until_known(lambda: client.schedule(ask.tag, **options))
            case "pause":
                await client.until_known(lambda: client.pause(ask.tag))
            case "resume":
                await client.until_known(lambda: client.resume(ask.tag))
            case "trigger":
                await client.trigger(ask.tag)
            case "follow" if options["parent"] in client.jobs:
                await client.until_known(lambda: client.follow(ask.tag, **options))
            case "unfollow" if ask.tag in client.jobs:
                await client.until_known(lambda: client.unfollow(ask.tag))
            case "end":
                await client.until_known(lambda: client.cancel(ask.tag, recurring=True))

    async def _submit(self, tag: str, options: dict[str, Any]) -> None:
        client = self._client
        parent = options.get("parent")
        if parent is not None and parent not in client.jobs:
            return  # the client does not know whether there is a parent to wait for
        cancel_after = options.pop("cancel after", None)
        if options.get("idempotent") is not None:
            await client.until_known(lambda: client.submit(tag, **options))
        else:
            await client.submit(tag, **options)
        if cancel_after is not None and tag in client.jobs:
            await asyncio.sleep(cancel_after)
            await client.until_known(lambda: client.cancel(tag))

    async def _until(self, t: float) -> None:
        await asyncio.sleep(max(0.0, t - self.loop.time()))

    # What is done to it.

    async def _strike(self, fault: Fault) -> None:
        await self._until(fault.t)
        if fault.kind.startswith("clock"):
            self._move_clock(fault)
            if not fault.kind.endswith("restart"):
                return
            # What starts now remembers nothing of the clock.
            fault = fault._replace(kind="crash", lasts=_AT_LEAST)
        node = await self._find(fault.node, lambda node: node.alive if fault.kind.startswith("crash") else node.awake)
        record = {"kind": fault.kind, "t": self.loop.time(), "node": node.name}
        if fault.kind in ("crash", "restart"):
            record["only"] = node.name  # no other process is touched
        until = max(fault.t + fault.lasts, self.loop.time() + _AT_LEAST)
        match fault.kind:
            case "crash":
                self._record(record, until)
                await self._down([node], until)
            case "crash without claims":
                self._record(record, until)
                await self._lose_claims()
                await self._down([node], until)
            case "crash all":
                self._record(record, until)
                await self._down(self._nodes, until)
            case "restart":
                await self._restart(node, fault.lasts)
                self._record(record, self.loop.time())
            case "freeze":
                self._record(record, until)
                node.freeze(until)
            case _:
                met = await self._bad_weather(fault, node, until)
                self._record(record, self.loop.time() + DEADLINE, met=met)

    async def _find(self, first: int, able: Callable[[Node], bool]) -> Node:
        """The node that was meant, or else the next one that can be struck now; waits until there is one."""
        while True:
            for place in range(plans.NODES):
                node = self._nodes[(first + place) % plans.NODES]
                if able(node):
                    return node
            await asyncio.sleep(_AT_LEAST)

    def _move_clock(self, fault: Fault) -> None:
        back = fault.kind.startswith("clock back")
        self._clock.offset += -fault.strength if back else fault.strength
        record = {"kind": "clock", "t": fault.t, "offset": self._clock.offset}
        self._record(record, fault.t + (fault.strength if back else 0.0), count=fault.kind)

    async def _lose_claims(self) -> None:
        """As a database that was put back may have done: who holds what is written nowhere but in the runs."""
        await self._store.database.run(lambda connection, _: connection.raw.execute("delete from claims"))

    async def _watch_for_stuck(self) -> None:
        while True:
            await asyncio.sleep(stuck.EVERY)
            rows = await self._store.database.run(lambda connection, _: connection.raw.execute(stuck.SQLITE).fetchall())
            held = await self._store.database.run(lambda connection, _: connection.raw.execute(stuck.HELD).fetchall())
            self._stuck.look(self.loop.time(), [*(run for (run,) in rows), *self._not_held(held)])

    def _not_held(self, rows: list[tuple[str, bytes]]) -> Iterator[str]:
        """Runs whose worker lives, and does not know them."""
        workers = {node.worker.id.bytes: node.worker for node in self._nodes if node.worker and node.worker.id}
        for run, worker_id in rows:
            if worker_id in workers and not workers[worker_id].holds(UUID(run)):
                yield run

    async def _down(self, nodes: list[Node], until: float) -> None:
        for node in nodes:
            node.kill()
        await self._until(until)
        for node in nodes:
            node.start()

    async def _restart(self, node: Node, seconds: float) -> None:
        life = node.process
        node.stop()
        while node.process is life:  # it may be frozen, too
            await asyncio.sleep(1.0)
        await asyncio.sleep(seconds)
        node.start()

    async def _bad_weather(self, fault: Fault, node: Node, until: float) -> bool:
        """Whether any call has met it."""
        places = [node.weather]
        if fault.kind == "database away":
            places = [*(node.weather for node in self._nodes), self._weather]
        elif fault.kind == "ends lost":
            places = [node.weather for node in self._nodes]
        elif self._random.random() < 0.3:
            places.append(self._weather)
        met_before = sum(weather.struck for weather in places)
        front = {
            "errors before": Front(fail_before=fault.strength),
            "errors after": Front(fail_after=fault.strength),
            "delays": Front(delay=fault.strength),
            "cut": Front(cut=True),
            "database away": Front(fail_before=1.0),
            "ends lost": Front(forget=True),
        }[fault.kind]
        if fault.kind == "cut":
            with _over(places, Front(mute=True)):
                await asyncio.sleep(min(self._random.random() * _LAST_WORDS, fault.lasts / 2))
        with _over(places, front):
            await self._until(until)
            for _ in range(_TIMEOUT):
                if sum(weather.struck for weather in places) > met_before:
                    return True
                await asyncio.sleep(1.0)
        return False

    def _record(self, record: dict[str, Any], until: float, *, count: str | None = None, met: bool = True) -> None:
        if met:
            self.struck[count or record["kind"]] += 1
        self.history.write("faults", {**record, "until": until})

    def _node_failed(self, name: str, error: BaseException) -> None:
        if not isinstance(error, asyncio.CancelledError | GeneratorExit):
            self.crashes.append(f"{name} ended by itself: {error!r} {getattr(error, 'exceptions', '')}")


@contextlib.contextmanager
def _over(places: list[Weather], front: Front) -> Iterator[None]:
    for weather in places:
        weather.come(front)
    try:
        yield
    finally:
        for weather in places:
            weather.go(front)


@contextlib.contextmanager
def _chance_from(seed: int, loop: VirtualLoop) -> Iterator[None]:
    """Ids, jitter and backoff drawn from the seed, and time from the loop."""
    source = Random(f"ids {seed}")
    chance.seed(seed)
    reaper._random.seed(seed)
    completion._random.seed(seed)
    os = SimpleNamespace(urandom=source.randbytes)
    time = SimpleNamespace(time_ns=lambda: round((BASE + loop.time()) * 1e9))
    with (
        clock.monotonic_from(loop.time),
        patch.object(ids, "os", os),
        patch.object(ids, "time", time),
        patch.object(ids, "_last", (0, 0)),
        patch("duetime.sdk.store_jobs.os.urandom", source.randbytes),
        # Loops that mostly find nothing to do: their pace is no part of what is tested here.
        patch.object(worker, "_CANCELS_EVERY", 30.0),
        patch.object(progress_reports, "INTERVAL", 300.0),
        patch.object(known_lanes, "_LANES_EVERY", 1.0),
        patch.object(claimer, "_RULES_EVERY", 60.0),
        patch.object(health_reporter, "_QUICK", 300.0),
    ):
        yield


@contextlib.contextmanager
def _quiet_loop(loop: VirtualLoop) -> Iterator[None]:
    """The dead leave coroutines behind that Python complains about when it collects them."""
    loop.set_exception_handler(lambda *_: None)
    hook, sys.unraisablehook = sys.unraisablehook, lambda *_: None
    # What was there before is not looked through when this seed's remains are.
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()
        loop.close()
        sys.unraisablehook = hook
