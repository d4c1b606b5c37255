"""The tasks of a tenant: which ones live workers provide, their defaults, and the schemas of their arguments.

A job for a task that no worker provides is stored with a warning, or refused (a setting). The warning suggests the most
similar name. The search for it blocks the event loop, so it is limited.
"""

import asyncio
import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence

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


class Tasks:
    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._refuse = settings.unknown_tasks == "refuse"
        self._known: Memory[int, frozenset[str]] = Memory(REMEMBERED)
        self._defaults: Memory[int, Mapping[str, Defaults]] = Memory(REMEMBERED)
        self._meant: Memory[tuple[int, str], str] = Memory(_MEANT_REMEMBERED)
        self._schemas: Memory[int, Mapping[str, str]] = Memory(REMEMBERED)
        self._checks: dict[str, ArgumentCheck] = {}
        """By the digest of the schema, the newest at the end."""

    async def check(self, tenant_id: int, task: str, *, suggest: bool) -> tuple[str, ...]:
        """The warnings for a task. Raises `InvalidInput` where unknown tasks are refused."""
        return (await self.check_all(tenant_id, [task], suggest=suggest))[task]

    async def check_all(self, tenant_id: int, tasks: Iterable[str], *, suggest: bool) -> dict[str, tuple[str, ...]]:
        """The warnings by task. `suggest`: the caller may learn the names of other tasks. Raises `InvalidInput` where
        unknown tasks are refused."""
        known = await self._names(tenant_id)
        warnings: dict[str, tuple[str, ...]] = {}
        unknown = 0
        for given in tasks:
            task, warnings[given] = kind_of(given), ()
            if task not in known:
                unknown += 1
                meant = self._meant_by(tenant_id, task, known) if suggest and unknown <= _MOST_MEANT else None
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

    def _meant_by(self, tenant_id: int, task: str, known: Collection[str]) -> str | None:
        meant = self._meant.get((tenant_id, task))
        if meant is None:
            meant = self._meant.put((tenant_id, task), nearest_task(task, known) or "")
        return meant or None

    async def has(self, tenant_id: int, task: str) -> bool:
        """Whether a live worker provides this task."""
        return task in await self._names(tenant_id)

    async def _names(self, tenant_id: int) -> frozenset[str]:
        return await self._known.read(tenant_id, lambda: self._read_names(tenant_id))

    async def _read_names(self, tenant_id: int) -> frozenset[str]:
        return frozenset(info.name for info in await self._store.queues.tasks(tenant_id))

    async def defaults(self, tenant_id: int) -> Mapping[str, Defaults]:
        """The defaults of a tenant's tasks, by name."""
        return await self._defaults.read(tenant_id, lambda: self._store.queues.task_defaults(tenant_id))

    async def argument_checks(self, tenant_id: int, tasks: Iterable[str | None]) -> dict[str, ArgumentCheck]:
        """The checks of the arguments of tasks whose schema is known."""
        digests = await self._schemas.read(tenant_id, lambda: self._store.queues.task_schemas(tenant_id))
        wanted = {task: digests[task] for task in tasks if task is not None and task in digests}
        missing = list({digest: None for digest in wanted.values() if digest not in self._checks})
        if missing:
            await self._compile(tenant_id, missing[:_MOST_COMPILED])
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
