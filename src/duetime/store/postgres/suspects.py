"""Whether there are suspects, which every scan asks."""

from duetime.clock import monotonic
from duetime.store.postgres.role import Role

_ASKED_EVERY = 0.5


class SuspectsRole(Role):
    _has_suspects = False
    _asked_at = -1e9

    async def has_suspects(self) -> bool:
        """Whether anything has lost a worker of late; at most half a second old."""
        if monotonic() - self._asked_at >= _ASKED_EVERY:
            self._has_suspects = await self.database.fetchval("has_suspects")
            self._asked_at = monotonic()
        return self._has_suspects

    def note(self) -> None:
        """There is one, as of now."""
        self._has_suspects = True
