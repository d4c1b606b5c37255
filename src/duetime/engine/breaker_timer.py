"""The breaker timer advances breakers whose time has passed. It runs on every node; each transition happens once."""

from duetime.model.breaker import BreakerPolicy
from duetime.settings import Settings
from duetime.store.protocol.store import Store

_EVERY = 0.5


def breaker_policy(settings: Settings) -> BreakerPolicy:
    return BreakerPolicy(
        enabled=settings.breakers == "on",
        least=settings.breaker_least,
        share=settings.breaker_percent / 100,
        retry_share=settings.retry_budget_percent / 100,
    )


class BreakerTimer:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def tick(self) -> float:
        await self._store.breakers.advance_breakers()
        return _EVERY
