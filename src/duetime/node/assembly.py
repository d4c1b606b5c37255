"""Builds the objects of a process and runs them: the only place where engine and worker meet."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from datetime import timedelta
from typing import TypedDict, Unpack

import msgspec

from duetime.api.http_server import HttpServer
from duetime.api.service import Service
from duetime.api.source_reader import SourceReader
from duetime.archive.archive import archive_of
from duetime.archive.archived_store import with_archive
from duetime.client.transport import Transport
from duetime.crypto.tls import ClientTls
from duetime.engine.alarm import Alarm, CheckInAlarm
from duetime.engine.archiver import Archiver, ArchiverLoop
from duetime.engine.breaker_timer import BreakerTimer, breaker_policy
from duetime.engine.bulk_runner import BulkRunner
from duetime.engine.canary import Canary
from duetime.engine.clock_guard import ClockGuard
from duetime.engine.configured_streams import ConfiguredStreams
from duetime.engine.eraser import Eraser
from duetime.engine.fire_quota import with_fire_quota
from duetime.engine.lane_sleeper import LaneSleeper
from duetime.engine.notifier import Notifier, OpenBreakers, SlowRuns
from duetime.engine.outbox import Outbox
from duetime.engine.pruner import OldestMessage, Pruner
from duetime.engine.queue_figures import QueueFigures
from duetime.engine.reaper import Reaper
from duetime.engine.recomputer import Recomputer
from duetime.engine.relay import Relay
from duetime.engine.scanner import Scanner
from duetime.engine.scheduler_watch import SchedulerWatch
from duetime.engine.search_indexer import SearchIndexer
from duetime.engine.settler import settling
from duetime.engine.stream_keeper import StreamKeeper
from duetime.engine.stream_lander import StreamLander
from duetime.engine.surveyor import LoopLag, Surveyor
from duetime.engine.trend_counter import TrendCounter
from duetime.engine.usage_counter import UsageCounter
from duetime.engine.watcher import Watcher
from duetime.errors import AccessDenied, InvalidInput, SettingsError, reason_of
from duetime.model.notification import QUEUE as NOTIFICATIONS
from duetime.model.structs import struct_like
from duetime.process.loop import Loop
from duetime.process.signals import stopped_by_signals
from duetime.sdk.app import App
from duetime.settings import Settings
from duetime.store.address import open_ready, store_for
from duetime.store.protocol.store import Store
from duetime.store.wrappers.observed import StoreObserver, observed
from duetime.streams.brokers import Brokers
from duetime.targets.completion_link import CompletionLinks
from duetime.targets.runner import TargetRunner
from duetime.telemetry.exposition import registry_of
from duetime.telemetry.meters import Meters
from duetime.telemetry.metrics_server import metrics_shown
from duetime.telemetry.traces import Tracer, make_tracer
from duetime.worker.attempts import Observer
from duetime.worker.capacity import WorkerLimits
from duetime.worker.http_source import HttpSource
from duetime.worker.import_guard import refuse_at_import
from duetime.worker.source import Source
from duetime.worker.stream_source import StreamSource
from duetime.worker.worker import Worker

log = logging.getLogger("duetime")


_FILE_TIMEOUT = 15.0
"""Seconds that a node waits for an embedded file that an app uses briefly."""
Ready = Callable[[Store, HttpServer | None], Awaitable[None]]


class Observers(TypedDict, total=False):
    """The observers of a worker."""

    observe: Observer | None
    meters: Meters | None
    tracer: Tracer | None


async def _nothing(store: Store, server: HttpServer | None) -> None:
    """The default for `ready`."""


class RemoteNode:
    """A process that reaches its jobs over HTTP: a worker."""

    def __init__(self, settings: Settings, app: App, *, observe: Observer | None = None, hosted: bool = False) -> None:
        """`hosted`: see `Node`."""
        assert settings.url is not None
        if settings.key is None:
            raise InvalidInput("a remote worker needs a key", field="key", remedy="set DUETIME_KEY to a worker key")
        self._hosted = hosted
        self._meters = Meters()
        self._tracer = _tracer(settings)
        self._app = app
        self._server = Transport(settings.url, settings.key, tls=ClientTls.of(settings))
        self._settings = settings
        self._observe = observe
        self._worker: Worker | None = None
        self._starting: asyncio.Task[None] | None = None

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Run until `stop`, or a signal if it is not hosted."""
        refuse_at_import("starts a worker")
        await self._server.open()
        source, settings = HttpSource(self._server), self._settings
        self._worker = worker = make_worker(
            self._app, source, settings, observe=self._observe, meters=self._meters, tracer=self._tracer
        )
        meters = self._meters
        shown = metrics_shown(registry_of(meters), meters.pulse, settings)
        try:
            with nullcontext() if self._hosted else stopped_by_signals(self.stop), shown:
                async with _measuring_loop_lag(meters), asyncio.TaskGroup() as group:
                    group.create_task(worker.run(), name="duetime worker")
                    self._starting = group.create_task(self._start(ready), name="duetime start hooks")
        finally:
            await self._app.close()
            await self._server.close()

    def stop(self) -> None:
        """Stop gracefully; called again, stop at once."""
        if self._starting is not None:
            self._starting.cancel()
        if self._worker is not None:
            self._worker.stop()

    async def _start(self, ready: Callable[[], None]) -> None:
        try:
            await self._app.started()
        except AccessDenied as error:
            # A worker's key permits only work: another process must create the schedules.
            log.warning("the start hooks of this app were refused: %s", reason_of(error))
        ready()


class Node:
    """What one process runs on one store: the engine's loops, the HTTP server, a worker."""

    def __init__(
        self,
        settings: Settings,
        *,
        app: App | None = None,
        loops: bool = True,
        serve: bool = False,
        observe: Observer | None = None,
        migrate: bool = False,
        targets: bool = False,
        hosted: bool = False,
        forget_address: Callable[[], None] = lambda: None,
    ) -> None:
        """`hosted`: it runs inside a process of the user's. It takes no signals there, does not close what the process
        itself has opened, and raises if the database is unavailable at the start.

        `forget_address` is called when this process acquires an embedded file, and when it stops: the recorded
        address of the file's server belongs to another process, or is about to become invalid."""
        if serve or targets:
            require_encryption(settings)
        self._hosted = hosted
        self._forget_address = forget_address
        self._has_file = False
        self._settings = settings
        self._with_targets = targets
        self.meters = Meters()
        self.metrics_port: int | None = None
        """The port that serves metrics, once there is one."""
        self._tracer = _tracer(settings)
        self._app = app
        self._with_loops = loops
        self._serve = serve
        self._observe = observe
        self._migrate = migrate
        self._loops: list[Loop] = []
        self._workers: list[Worker] = []
        self._server: HttpServer | None = None
        self._starting: asyncio.Task[None] | None = None
        self._stopped = False

    async def run(self, ready: Ready = _nothing) -> None:
        """Run until `stop`, or a signal if it is not hosted; `ready` is called once everything is up, with the server
        if there is one."""
        refuse_at_import("starts a node")
        own = store_for(self._settings, serves=self._serve, lock_timeout=_FILE_TIMEOUT)
        observer = StoreObserver(self.meters, self._tracer)
        store = with_archive(observed(own, observer), self._settings)
        try:
            with nullcontext() if self._hosted else stopped_by_signals(self.stop):
                # If it was stopped meanwhile, nothing has started that would need a stop.
                if await self._open(store) and not self._stopped:
                    await self._run_on(store, observer, ready)
        finally:
            if self._app is not None:
                # Tasks may have used it from threads, with its own connections; the threads of a host still do.
                await (self._app.close() if self._hosted else self._app.shut_down())
            if self._has_file:
                self._forget_address()  # while this process owns the file: the next owner has its own address
            await store.close()

    def stop(self) -> None:
        """Stop gracefully; called again, stop at once."""
        self._stopped = True
        if self._has_file:
            self._forget_address()  # apps wait for the file from now on
        if self._starting is not None:
            self._starting.cancel()
        for loop in self._loops:
            loop.stop()
        for worker in self._workers:
            worker.stop()
        if self._server is not None:
            self._server.stop()

    async def _open(self, store: Store) -> bool:
        """Open the store, waiting as long as a shared database is unavailable; false when stopped before. An embedded
        file that cannot be opened is in use or broken, and waiting does not help; a host decides itself."""
        if store.embedded or self._hosted:
            await open_ready(store, migrate=self._migrate)
            self._has_file = store.embedded
            if store.embedded:
                self._forget_address()
            return True
        opened = False

        async def attempt() -> float:
            nonlocal opened
            await open_ready(store, migrate=self._migrate)
            opened = True
            opening.stop()
            return 0.0

        opening = Loop("start", attempt)
        self._loops = [opening]
        await opening.run()
        return opened

    async def _run_on(self, store: Store, observer: StoreObserver, ready: Ready) -> None:
        watcher, guard = Watcher(store), ClockGuard(store, lease=self._settings.lease)
        brokers = Brokers()
        keeper: StreamKeeper | None = None
        if self._with_loops:
            keeper = StreamKeeper(store, brokers, self.meters, lease=self._settings.lease)
            self._loops = engine_loops(store, self._settings, guard, watcher, keeper.oldest_message)
            self._loops.append(Loop("stream keeper", keeper.tick, jitter=0.2))
            self._loops += configured_streams(store, self._settings)
            eraser = Eraser(store, archive_of(store, self._settings), brokers, guard=guard)
            self._loops.append(Loop("eraser", eraser.tick, jitter=0.2))
        else:
            self._loops = [Loop("scheduler watch", SchedulerWatch(store).tick, jitter=0.2)]
        self._loops += self._observer_loops(store, observer, watcher, guard, keeper)
        if self._app is not None or self._with_targets:
            relay = relaying(store, self._settings, brokers)
            self._loops.append(relay.loop)
        else:
            relay = None
        service: Service | None = None
        lander: StreamLander | None = None
        reader: SourceReader | None = None
        if self._serve:
            service = Service(store, self._settings, meters=self.meters, tracer=self._tracer)
            self._server = HttpServer(service, self._settings)
            self._loops += [Loop("service", service.tick, jitter=0.2), *service.gateway.loops]
            if service.replica is not None:
                self._loops.append(service.replica.loop)
            store.listen(service.gateway.hint)
            reader = SourceReader(service, self.meters)
            self._loops.append(Loop("sources", reader.tick, jitter=0.2))
            bulk = Loop("bulk actions", BulkRunner(service.store).tick, jitter=0.2)
            service.when_bulk_is_put = bulk.wake
            self._loops.append(Loop("search index", SearchIndexer(store).tick, jitter=0.2))
            self._loops.append(bulk)
            dealer = service.gateway.dealer
            lander = StreamLander(store, brokers, self.meters, dealer, lease=self._settings.lease)
            self._loops.append(lander.loop)
        registry = registry_of(self.meters) if service is None else service.metrics.registry
        shown = metrics_shown(registry, self.meters.pulse, self._settings)
        runner = self._target_runner(store) if self._with_targets else None
        with nullcontext() if self._app is None else self._app.using_store(store), shown as self.metrics_port:
            seen: Observers = {"observe": self._observe, "meters": self.meters, "tracer": self._tracer}
            if self._app is not None:
                self._workers.append(make_worker(self._app, StreamSource(store, self.meters), self._settings, **seen))
            if runner is not None:
                # Separate from the app's own worker: neither takes the other's slots.
                self._workers.append(make_target_worker(runner, store, self._settings, self._app, **seen))
            async with _measuring_loop_lag(self.meters), asyncio.TaskGroup() as group:
                for loop in self._loops:
                    group.create_task(loop.run(), name=f"duetime {loop.name}")
                for worker in self._workers:
                    group.create_task(worker.run(), name="duetime worker")
                if self._server is not None:
                    group.create_task(self._server.run(), name="duetime server")
                self._starting = group.create_task(self._start(store, ready), name="duetime start hooks")
        for user in (reader, relay, lander):
            if user is not None:
                await user.close()
        await brokers.close()
        if runner is not None:
            await runner.close()
        if service is not None:
            await service.close()

    def _target_runner(self, store: Store) -> TargetRunner:
        public_url = self._settings.public_url or (None if self._server is None else self._server.url)
        return TargetRunner(store, self._settings, CompletionLinks(store.tenants, public_url))

    def _observer_loops(
        self,
        store: Store,
        observer: StoreObserver,
        watcher: Watcher,
        guard: ClockGuard,
        keeper: StreamKeeper | None,
    ) -> list[Loop]:
        """The loops that observe this node and its database, for metrics."""
        gauges, settings = self.meters.gauges, self._settings
        gauges["duetime_pool_connections_used"] = lambda: {(): float(store.survey.connections()[0])}
        gauges["duetime_pool_connections"] = lambda: {(): float(store.survey.connections()[1])}
        loops: list[Loop] = []
        if self._with_loops and (archive := archive_of(store, settings)) is not None:
            archiver = Archiver(store, archive, retention=settings.retention, guard=guard, meters=self.meters)
            loops.append(ArchiverLoop(archiver))
            gauges["duetime_archive_waiting_days"] = lambda: {(): float(self.meters.archive_waiting)}
        if keeper is not None:
            queues = None
            if settings.metrics_queues:
                queues = QueueFigures(store, most=settings.metrics_queues, in_streams=lambda: keeper.depths)
            surveyor = Surveyor(
                store, self.meters, know_tiers=observer.know_tiers, unserved=lambda: watcher.unserved, queues=queues
            )
            loops.append(Loop("surveyor", surveyor.tick, jitter=0.2))
            if settings.canary:
                canary = Canary(store, self.meters, interval=settings.canary)
                loops.append(Loop("canary", canary.tick))
        return loops

    async def _start(self, store: Store, ready: Ready) -> None:
        if self._app is not None:
            await self._app.started()
        await ready(store, self._server)


def engine_loops(
    store: Store,
    settings: Settings,
    guard: ClockGuard | None = None,
    watcher: Watcher | None = None,
    oldest_message: OldestMessage | None = None,
) -> list[Loop]:
    """The loops of one node; any number of nodes may run them at the same time."""
    scanner = Scanner(with_fire_quota(store), interval=settings.poll)
    # A short lease needs a reaper that runs more often.
    interval = min(timedelta(milliseconds=500), settings.lease / 4)
    guard = guard or ClockGuard(store, lease=settings.lease)
    reaper = Reaper(store, lease=settings.lease, interval=interval, guard=guard)
    pruner = Pruner(
        store,
        retention=settings.retention,
        dead_letter_retention=settings.dead_letter_retention,
        idempotency_retention=settings.idempotency_retention,
        guard=guard,
        oldest_message=oldest_message,
    )
    counter = UsageCounter(store, retention=settings.usage_retention, guard=guard)
    return [
        Loop("scanner", scanner.tick, jitter=0.1),
        settling(store, interval=settings.poll),
        Loop("reaper", reaper.tick, jitter=0.2),
        Loop("usage", counter.tick, jitter=0.2),
        Loop("trends", TrendCounter(store, guard=guard).tick, jitter=0.1),
        Loop("pruner", pruner.tick, jitter=0.2),
        Loop("lanes", LaneSleeper(store.claims).tick, jitter=0.2),
        Loop("recomputer", Recomputer(store).tick, jitter=0.2),
        Loop("breakers", BreakerTimer(store).tick, jitter=0.2),
        Loop("watcher", (watcher or Watcher(store)).tick, jitter=0.2),
        *_notification_loops(store, guard, settings.public_url),
    ]


def relaying(store: Store, settings: Settings, brokers: Brokers) -> Relay:
    """The relay of a process with workers, which announces stored runs in streams."""
    relay = Relay(store, brokers, lease=settings.lease)
    store.listen(relay.hint)
    return relay


def configured_streams(store: Store, settings: Settings) -> list[Loop]:
    """The loop that sets the streams of queues that the settings name, if they name any."""
    wanted = dict(each.split("=", 1) for each in settings.stream_queues)
    sealed = store.sealer is not None and store.sealer.has_key
    tick = ConfiguredStreams(store.streams, wanted, sealed=sealed).tick
    return [Loop("configured streams", tick, jitter=0.2)] if wanted else []


def _notification_loops(store: Store, guard: ClockGuard, public_url: str | None) -> list[Loop]:
    """The loops that send notifications: not in a process without a key, which cannot read where to."""
    if store.sealer is not None and not store.sealer.has_key:
        return []
    outbox = Outbox(store)
    alarm = Alarm(store, outbox, guard=guard, public_url=public_url)
    checkins = CheckInAlarm(store, outbox, guard=guard, public_url=public_url)
    return [
        Loop("notifier", Notifier(store, outbox).tick, jitter=0.2),
        Loop("slow runs", SlowRuns(store).tick, jitter=0.2),
        Loop("open breakers", OpenBreakers(store, outbox).tick, jitter=0.2),
        Loop("alarm", alarm.tick, jitter=0.2),
        Loop("check-ins", checkins.tick, jitter=0.2),
    ]


def require_encryption(settings: Settings) -> None:
    """Signing keys (for sessions, cursors, requests, links) are encrypted in the database: without an encryption key
    nothing is served and nothing is called. Raises `SettingsError`."""
    if not settings.has_encryption:
        raise SettingsError(
            "servers and targets need an encryption key for their signing keys",
            field="encryption_keys",
            remedy="set DUETIME_ENCRYPTION_KEYS, the same for all processes; `duetime encryption new-key` creates one",
        )


def _tracer(settings: Settings) -> Tracer | None:
    return make_tracer() if settings.traces == "on" else None


def make_worker(app: App, source: Source, settings: Settings, **seen: Unpack[Observers]) -> Worker:
    tasks = {name: task.definition for name, task in app.tasks.items()}
    defaults = {name: task.defaults for name, task in app.tasks.items()}
    return Worker(source, tasks, _limits(settings), defaults=defaults, hooks=app.hooks, **seen)


def make_target_worker(
    runner: TargetRunner, store: Store, settings: Settings, app: App | None = None, **seen: Unpack[Observers]
) -> Worker:
    """A worker that makes the calls and runs the commands of jobs. It needs the store itself, which holds the secrets.

    It always serves the queue of notifications, whatever queues it is configured for: no other worker does.
    """
    limits = _limits(settings)
    if limits.queues:
        limits = msgspec.structs.replace(limits, queues=tuple(dict.fromkeys((*limits.queues, NOTIFICATIONS))))
    hooks = None if app is None else app.hooks
    source = StreamSource(store, seen.get("meters"))
    return Worker(source, {}, limits, targets=runner, hooks=hooks, **seen)


def _limits(settings: Settings) -> WorkerLimits:
    return struct_like(
        WorkerLimits,
        settings,
        strict=settings.priorities == "strict",
        breakers=breaker_policy(settings),
        calls=settings.target_slots,
        commands=settings.shell_slots,
        cluster_jobs=settings.kubernetes_slots,
        heartbeat_thread=True,
    )


@asynccontextmanager
async def _measuring_loop_lag(meters: Meters) -> AsyncIterator[None]:
    """Measure until everything else has ended: a worker that is stopping, and lets its runs finish, is alive."""
    lag = Loop("loop lag", LoopLag(meters).tick)
    looking = asyncio.create_task(lag.run(), name=f"duetime {lag.name}")
    try:
        yield
    finally:
        lag.stop()
        await looking
