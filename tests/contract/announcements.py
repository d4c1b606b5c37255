"""Watching that what becomes claimable is announced."""

from datetime import datetime
from typing import Any
from uuid import UUID

from tests.support.unclaimed import unclaimed


class Announcements:
    """What a store has announced since the last check."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._known: dict[tuple[UUID, int], datetime] = {}
        self.heard = False
        announce = store.context.ready.announce

        def listen(count: int = 1) -> None:
            self.heard = self.heard or bool(count)
            announce(count)

        store.context.ready.announce = listen

    async def check(self) -> int:
        """How many runs became claimable since the last check, or will be sooner: it must have been announced."""
        waiting = {(run.run_id, run.lane_id): run.ready_at for run in await unclaimed(self._store)}
        fresh = [place for place, at in waiting.items() if place not in self._known or at < self._known[place]]
        assert self.heard or not fresh, f"{len(fresh)} runs became claimable, and this was not announced"
        self._known, self.heard = waiting, False
        return len(fresh)
