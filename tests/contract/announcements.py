"""Watching that what becomes claimable is announced."""

from datetime import datetime
from typing import Any
from uuid import UUID


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
        look = await self._store.claims.look([lane.id for lane in await self._store.claims.lanes()], 1000)
        waiting = {
            (run_id, sight.lane_id): ready_at
            for sight in look.sights
            for run_id, ready_at in zip(sight.run_ids, sight.ready_at, strict=True)
        }
        fresh = [place for place, at in waiting.items() if place not in self._known or at < self._known[place]]
        assert self.heard or not fresh, f"{len(fresh)} runs became claimable, and this was not announced"
        self._known, self.heard = waiting, False
        return len(fresh)
