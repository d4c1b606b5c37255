"""What is known of tasks: whether any worker has one, and what it says of its jobs.

A job for a task that nobody has is stored with a warning, or refused (a setting).
"""

import difflib
from collections.abc import Collection, Mapping

from duetime.api.memory import Memory
from duetime.errors import InvalidInput
from duetime.model.defaults import Defaults
from duetime.model.target import kind_of
from duetime.settings import Settings
from duetime.store.protocol import Store

REMEMBERED = 2.0
"""Seconds: a worker that starts, and what it tells, is known within that time."""


class Tasks:
    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._refuse = settings.unknown_tasks == "refuse"
        self._known: Memory[int, frozenset[str]] = Memory(REMEMBERED)
        self._defaults: Memory[int, Mapping[str, Defaults]] = Memory(REMEMBERED)

    async def check(self, tenant_id: int, task: str) -> tuple[str, ...]:
        """What to warn of. Raises `InvalidInput` where unknown tasks are refused."""
        task = kind_of(task)
        if await self.has(tenant_id, task):
            return ()
        meant = _nearest(task, await self._names(tenant_id))
        if self._refuse:
            remedy = "start a worker that has it, or mend the name" if meant is None else f"did you mean {meant!r}?"
            raise InvalidInput(f"no worker has the task {task!r}", field="task", remedy=remedy)
        asked = "" if meant is None else f"; did you mean {meant!r}?"
        return (f"no worker has the task {task!r} now: the job waits until one does{asked}",)

    async def has(self, tenant_id: int, task: str) -> bool:
        """Whether a live worker has this task."""
        return task in await self._names(tenant_id)

    async def _names(self, tenant_id: int) -> frozenset[str]:
        known = self._known.get(tenant_id)
        if known is None:
            found = await self._store.tasks(tenant_id)
            known = self._known.put(tenant_id, frozenset(info.name for info in found))
        return known

    async def defaults(self, tenant_id: int) -> Mapping[str, Defaults]:
        """What tasks say of a tenant's jobs, by name."""
        known = self._defaults.get(tenant_id)
        return known if known is not None else self._defaults.put(tenant_id, await self._store.task_defaults(tenant_id))


def _nearest(task: str, known: Collection[str]) -> str | None:
    """The task that was probably meant: one of that name in some module, else one that is spelt much like it."""
    in_a_module = sorted(name for name in known if name.endswith(f".{task}"))
    close = in_a_module or difflib.get_close_matches(task, sorted(known), n=1)
    return close[0] if close else None
