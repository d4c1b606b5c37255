"""More than can be done: over HTTP, a tenant asks for five times as much as the slots can take.

Its quota lets it store some work and no more, so the rest is refused instead of piling up, the slots stay busy, and
what waits is done soon after. Meanwhile another tenant asks for little, and must not notice.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Literal, NamedTuple

import aiohttp

from chaos.history import Files
from chaos.real import sampling
from chaos.real.cluster import SLOTS, Cluster
from chaos.real.run import drained
from duetime import App
from duetime.ids import new_id
from duetime.model.access import NewKey, Role
from duetime.model.key_text import new_key_text
from duetime.model.tenant import NewTenant, TenantLimits
from duetime.store.protocol.store import Store

WORKERS = 2
_TASK = 0.25
"""Seconds that a task of the overload takes, so that slots are what there is too little of."""
CAPACITY = WORKERS * SLOTS / _TASK
"""Runs of the overload that can be done in a second."""
TIMES = 5
QUOTA = round(30 * CAPACITY)
"""Jobs that the tenant may have: as an operator would set it to keep every wait below half a minute."""
_OVERLOAD = 60.0
_SHORTEST = 10.0
"""The same where the soak is short. It still fills the quota."""
_TOGETHER = 10
"""Half of the jobs come one by one, as very many requests, and half come together, as larger ones."""
_CALM = 5.0
"""Seconds of ordinary work at the end, which has to be on time."""
_TIMEOUT = 30.0
NORMAL = 1.0
RECOVERS_WITHIN = 60.0
OFFERED = 0.8 * TIMES
"""Times the capacity: what has to be offered at least for the overload to be one."""
AT_WORK = 0.8
OVER_QUOTA = 1.1
"""The quota is checked against an estimate: what may pass it is what is under way at the time of a count."""


@dataclass
class Served:
    """What a tenant was answered, and how late its runs began."""

    taken: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    """Jobs, by what was answered."""
    failed: dict[str, int] = field(default_factory=dict)
    """Those that were neither taken nor refused."""
    answered_within: dict[str, float] = field(default_factory=dict)
    lag: dict[str, float] = field(default_factory=dict)


@dataclass
class Overload:
    """What came of more than can be done."""

    seconds: float = 0.0
    capacity: float = CAPACITY
    offered: float = 0.0
    """Jobs a second."""
    quota: int = QUOTA
    most_stored: int = 0
    crowd: Served = field(default_factory=Served)
    neighbour: Served = field(default_factory=Served)
    done_during: float = 0.0
    """Runs a second."""
    not_done: int = 0
    """Jobs that were taken, and not done in the end."""
    normal_after: float = 0.0
    """Seconds from its end to the last run that began later than is normal, or to the last refusal."""
    deaths: int = 0
    """Processes that ended."""

    def broken(self) -> list[str]:
        failed = dict(Counter(self.crowd.failed) + Counter(self.neighbour.failed))
        waited = self.neighbour.lag.get("p95", 0.0)
        judged = {
            "the overload showed nothing: nothing was refused": not self.crowd.refused,
            f"the overload showed nothing: {self.offered} jobs/s were offered": self.offered < OFFERED * CAPACITY,
            "the overload showed nothing: it had no neighbour": not self.neighbour.taken,
            f"neither taken nor refused: {failed}": bool(failed),
            f"a quota of {QUOTA} jobs let {self.most_stored} in": self.most_stored > OVER_QUOTA * QUOTA,
            f"collapsed: {self.done_during} runs/s of {CAPACITY}": self.done_during < AT_WORK * CAPACITY,
            f"collapsed: {self.deaths} processes ended": self.deaths > 0,
            f"{self.not_done} jobs were taken and not done": self.not_done > 0,
            f"lag was normal again only {self.normal_after} s after the overload": self.normal_after > RECOVERS_WITHIN,
            f"jobs of the neighbour were refused: {self.neighbour.refused}": bool(self.neighbour.refused),
            f"the neighbour's p95 lag was {waited} s": waited > NORMAL,
        }
        return [text for text, is_so in judged.items() if is_so]


@dataclass
class Answers:
    """What was answered to one who submits."""

    asked: int = 0
    taken: set[str] = field(default_factory=set)
    refused: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    refused_at: float = 0.0
    """The last time."""
    waits: list[float] = field(default_factory=list)
    """Seconds that each answer took."""

    def add(self, tags: Sequence[str], status: int, code: str) -> None:
        match meaning(status, code):
            case "taken":
                self.taken.update(tags)
            case "refused":
                self.refused[f"{status} {code}"] += len(tags)
                self.refused_at = time.monotonic()
            case "failed":
                self.failed[f"{status} {code}"] += len(tags)


def meaning(status: int, code: str) -> Literal["taken", "refused", "failed"]:
    """What was refused did not happen, and may be asked again later."""
    if status in (200, 201):
        return "taken"
    return "refused" if status in (429, 503) or code == "quota_exceeded" else "failed"


class Caller:
    """A tenant that submits over HTTP. It asks once: duetime's own client would ask again, and does not tell a 500 from
    a 503."""

    def __init__(self, session: aiohttp.ClientSession, url: str, key: str) -> None:
        self._session = session
        self._url = url
        self._headers = {"Authorization": f"Bearer {key}"}
        self.answers = Answers()

    async def submit(self, tags: Sequence[str], *, seconds: float = 0.0) -> None:
        self.answers.asked += len(tags)
        jobs = [{"task": "work", "args": {"tag": tag, "seconds": seconds}} for tag in tags]
        began = time.monotonic()
        path, body = ("/v1/jobs", jobs[0]) if len(jobs) == 1 else ("/v1/jobs/batch", jobs)
        status, code = await self._post(path, body)
        self.answers.waits.append(time.monotonic() - began)
        self.answers.add(tags, status, code)

    async def _post(self, path: str, body: object) -> tuple[int, str]:
        """The status and the code of the problem, if it is one; 0 when there was no answer."""
        try:
            async with self._session.post(self._url + path, json=body, headers=self._headers) as answer:
                told = await answer.json(content_type=None)
                return answer.status, str(told.get("code", ""))
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            return 0, type(error).__name__


async def overload(cluster: Cluster, app: App, writer: Files, *, within: float) -> Overload:
    """For a minute, or for less where the soak before it was short."""
    seconds = min(_OVERLOAD, max(_SHORTEST, within))
    store = await app.store()
    crowd = await store.tenants.create_tenant(NewTenant("crowd", limits=TenantLimits(stored_jobs=QUOTA)))
    neighbour = await store.tenants.create_tenant(NewTenant("neighbour"))
    keys = [await _key(store, tenant.id) for tenant in (crowd, crowd, neighbour)]
    deaths = sum(member.deaths for member in cluster.members)
    unlimited, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=_TIMEOUT)
    async with aiohttp.ClientSession(connector=unlimited, timeout=timeout) as session:
        over, calm, beside = [Caller(session, cluster.urls[0], key) for key in keys]
        began, most = time.monotonic(), 0
        async with _asking(
            Stream(over, "one", TIMES * CAPACITY / 2, seconds=_TASK),
            Stream(over, "many", TIMES * CAPACITY / 2, _TOGETHER, seconds=_TASK),
            Stream(beside, "beside", 1.0),
        ):
            while time.monotonic() < began + seconds:
                most = max(most, await store.tenants.usage(crowd.id, "stored_jobs", 10 * QUOTA))
                await asyncio.sleep(0.5)
            ended = time.monotonic()
        async with _asking(Stream(calm, "calm", 10.0, 5)):
            while time.monotonic() < ended + RECOVERS_WITHIN + 30.0 and (await store.reads.counts()).runs > 5:
                await asyncio.sleep(0.5)
            await asyncio.sleep(_CALM)
    await drained(app, within=120.0)
    attempts = sampling.attempts(writer.folder)
    found = came_of_it(attempts, over.answers, calm.answers, beside.answers, began, ended)
    found.most_stored = most
    found.deaths = sum(member.deaths for member in cluster.members) - deaths
    return found


def came_of_it(
    attempts: Sequence[sampling.Attempt], over: Answers, calm: Answers, beside: Answers, began: float, ended: float
) -> Overload:
    """By what was seen of the tasks, and what was answered: to the overload, to the same tenant after it, and to its
    neighbour."""
    ends = [attempt.done_at for attempt in attempts if attempt.tag in over.taken and attempt.done_at is not None]
    done = {attempt.tag for attempt in attempts if attempt.done_at is not None}
    late = [attempt.t for attempt in attempts if attempt.lag > NORMAL]
    first = began + 1.0  # until then the slots fill up
    crowd, neighbour = _served(attempts, over), _served(attempts, beside)
    crowd.failed = dict(over.failed + calm.failed)
    return Overload(
        seconds=round(ended - began, 1),
        offered=round(over.asked / (ended - began), 1),
        crowd=crowd,
        neighbour=neighbour,
        done_during=round(sum(first <= t < ended for t in ends) / (ended - first), 1),
        not_done=len((over.taken | calm.taken | beside.taken) - done),
        normal_after=round(max([*late, calm.refused_at, ended]) - ended, 1),
    )


def _served(attempts: Iterable[sampling.Attempt], answers: Answers) -> Served:
    lag = sampling.quantiles(attempt.lag for attempt in attempts if attempt.tag in answers.taken)
    waits = sampling.quantiles(answers.waits)
    return Served(len(answers.taken), dict(answers.refused), dict(answers.failed), waits, lag)


async def _key(store: Store, tenant_id: int) -> str:
    made = new_key_text()
    await store.access.create_key(NewKey(new_id(), tenant_id, Role.SUBMITTER, "chaos", made.hash, made.hint))
    return made.text


class Stream(NamedTuple):
    caller: Caller
    name: str
    rate: float
    """Jobs a second."""
    together: int = 1
    seconds: float = 0.0


@asynccontextmanager
async def _asking(*streams: Stream) -> AsyncIterator[None]:
    """These streams ask meanwhile, whether or not earlier requests were answered: a slow server does not lower the
    rate. All streams stop at once, and wait for their answers in the end."""
    stop = asyncio.Event()

    async def ask(group: asyncio.TaskGroup, stream: Stream) -> None:
        began = time.monotonic()
        for number in count(1):
            tags = [f"{stream.name}-{number}-{place}" for place in range(stream.together)]
            group.create_task(stream.caller.submit(tags, seconds=stream.seconds))
            await asyncio.sleep(max(0.0, began + number * stream.together / stream.rate - time.monotonic()))
            if stop.is_set():
                return

    async with asyncio.TaskGroup() as group:
        for stream in streams:
            group.create_task(ask(group, stream))
        try:
            yield
        finally:
            stop.set()
