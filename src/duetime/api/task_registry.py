"""The tasks of a tenant: which ones live workers provide, their defaults, and the schemas of their arguments.

A job for a task that no worker provides is stored with a warning, or refused (a setting). The warning suggests the most
similar name. The search for it blocks the event loop, so it is limited.
"""

import asyncio
import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from duetime.api.lookup_cache import Memory
from duetime.codec.schema_types import ArgumentCheck
from duetime.errors import InvalidInput
from duetime.model.defaults import Defaults
from duetime.model.target import kind_of
from duetime.settings import Settings
from duetime.store.protocol.store import Store

REMEMBERED = 2.0
"""Seconds within which the tasks and defaults of a new worker are known."""
_MEANT_REMEMBERED = 60.0
_MOST_MEANT = 10
"""Unknown names in one request for which a suggestion is searched."""
_MOST_COMPILED = 50
"""New schemas that are compiled for one request. Arguments for others are left to the worker."""
_MOST_CHECKS = 2_000
_MOST_COMPARED = 100_000
"""Characters of a name times those of all known names: about 20 ms of work."""


class KnownTasks(NamedTuple):
    """The tasks of a tenant, as its live workers declare them."""

    tenant_id: int
    names: frozenset[str]
    defaults: Mapping[str, Defaults]
    digests: Mapping[str, str]
    """Those of the schemas of their arguments."""


NO_TASKS = KnownTasks(0, frozenset(), {}, {})


class Tasks:
    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._refuse = settings.unknown_tasks == "refuse"
        self._known: Memory[int, KnownTasks] = Memory(REMEMBERED)
        self._meant: Memory[tuple[int, str], str] = Memory(_MEANT_REMEMBERED)
        self._checks: dict[str, ArgumentCheck] = {}
        """By the digest of the schema, the newest at the end."""

    async def known(self, tenant_id: int) -> KnownTasks:
        """What is known of a tenant's tasks, a moment old at most."""
        return await self._known.read(tenant_id, partial(self._read, tenant_id))

    async def _read(self, tenant_id: int) -> KnownTasks:
        queues = self._store.queues
        names = await queues.task_names(tenant_id)
        return KnownTasks(tenant_id, names, await queues.task_defaults(tenant_id), await queues.task_schemas(tenant_id))

    def warnings(self, known: KnownTasks, tasks: Iterable[str], *, suggest: bool) -> dict[str, tuple[str, ...]]:
        """The warnings by task. `suggest`: the caller may learn the names of other tasks. Raises `InvalidInput` where
        unknown tasks are refused."""
        warnings: dict[str, tuple[str, ...]] = {}
        unknown = 0
        for given in tasks:
            task, warnings[given] = kind_of(given), ()
            if task not in known.names:
                unknown += 1
                meant = self._meant_by(known, task) if suggest and unknown <= _MOST_MEANT else None
                warnings[given] = (self._warning(task, meant),)
        return warnings

    def _warning(self, task: str, meant: str | None) -> str:
        if self._refuse:
            remedy = (
                "start a worker that provides it, or correct the name" if meant is None else f"did you mean {meant!r}?"
            )
            raise InvalidInput(f"no worker provides the task {task!r}", field="task", remedy=remedy)
        asked = "" if meant is None else f"; did you mean {meant!r}?"
        return f"no worker provides the task {task!r} now: the job waits until one does{asked}"

    def _meant_by(self, known: KnownTasks, task: str) -> str | None:
        place = known.tenant_id, task
        meant = self._meant.get(place)
        if meant is None:
            meant = self._meant.put(place, nearest_task(task, known.names) or "")
        return meant or None

    async def argument_checks(self, known: KnownTasks, tasks: Iterable[str | None]) -> Mapping[str, ArgumentCheck]:
        """The checks of the arguments of tasks whose schema is known."""
        if not known.digests:
            return {}
        wanted = {task: known.digests[task] for task in tasks if task is not None and task in known.digests}
        missing = list({digest: None for digest in wanted.values() if digest not in self._checks})
        if missing:
            await self._compile(known.tenant_id, missing[:_MOST_COMPILED])
        return {task: self._checks[digest] for task, digest in wanted.items() if digest in self._checks}

    async def _compile(self, tenant_id: int, digests: Sequence[str]) -> None:
        for digest, schema in (await self._store.queues.schemas(tenant_id, digests)).items():
            self._checks[digest] = await asyncio.to_thread(ArgumentCheck, schema)
        while len(self._checks) > _MOST_CHECKS:
            del self._checks[next(iter(self._checks))]


def nearest_task(task: str, known: Collection[str]) -> str | None:
    """The most similar task: one with this name in another module, else one with a similar spelling."""
    close = sorted(name for name in known if name.endswith(f".{task}"))
    if not close and len(task) * sum(map(len, known)) <= _MOST_COMPARED:
        close = difflib.get_close_matches(task, sorted(known), n=1)
    return close[0] if close else None
