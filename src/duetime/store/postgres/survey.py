"""Surveying: figures of the whole database that cost the same however large it is."""

from duetime.model.breaker import BreakerState
from duetime.model.lane import Tier
from duetime.store.postgres.database import SQL
from duetime.store.postgres.role import Role
from duetime.store.protocol.service import Survey, TableFigures


class SurveyRole(Role):
    async def survey(self, cap: int = 10_000) -> Survey:
        async with self.database.connection() as connection:
            waiting = await connection.fetch(SQL["waiting_by_tier"], cap)
            dead_letters = await connection.fetchval(SQL["dead_letters_up_to"], cap)
            breakers = await connection.fetch(SQL["breakers_by_state"])
            tables = [TableFigures(*row) for row in await connection.fetch(SQL["table_figures"])]
        size = sum(table.size or 0 for table in tables)
        return Survey(
            {Tier(tier): count for tier, count in waiting},
            dead_letters,
            tuple(tables),
            size,
            {BreakerState(state): count for state, count in breakers},
        )

    def connections(self) -> tuple[int, int]:
        return self.database.used, self.database.size
