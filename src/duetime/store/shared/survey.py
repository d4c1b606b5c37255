"""Figures of the whole database, at a cost that does not depend on its size."""

from collections.abc import Callable

from duetime.model.breaker import BreakerState
from duetime.model.lane import Tier
from duetime.store.protocol.service import Survey, TableFigures
from duetime.store.shared.transaction import SharedContext, SharedRole


class SurveyRole(SharedRole):
    def __init__(self, context: SharedContext, connections: Callable[[], tuple[int, int]]) -> None:
        super().__init__(context)
        self.connections = connections

    async def survey(self, cap: int = 10_000) -> Survey:
        waiting = await self.transactions.rows("waiting_by_tier", cap=cap)
        tables = await self.transactions.rows("table_figures", cap=cap)
        breakers = await self.transactions.rows("breakers_by_state")
        return Survey(
            waiting={Tier(row["tier"]): row["count"] for row in waiting},
            dead_letters=await self.transactions.value("dead_letters_up_to", cap=cap),
            tables=tuple(TableFigures(row["name"], row["rows"], row["size"]) for row in tables),
            size=await self.transactions.value("database_size"),
            breakers={BreakerState(row["state"]): row["count"] for row in breakers},
        )
