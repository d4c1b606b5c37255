"""Surveying: figures of the whole database that cost the same however large it is."""

from duetime.model.breaker import BreakerState
from duetime.model.lane import Tier
from duetime.store.protocol.service import Survey, TableFigures
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role


class SurveyRole(Role):
    async def survey(self, cap: int = 10_000) -> Survey:
        def work(connection: Connection, now: int) -> Survey:
            asked = {"now": now, "cap": cap}
            waiting = {Tier(tier): count for tier, count in connection.rows("waiting_by_tier", asked)}
            tables = tuple(TableFigures(name, rows) for name, rows in connection.rows("table_figures", asked))
            dead_letters = connection.value("dead_letters_up_to", asked)
            breakers = {BreakerState(state): count for state, count in connection.rows("breakers_by_state", {})}
            return Survey(waiting, dead_letters, tables, connection.value("database_size", {}), breakers)

        return await self.database.run(work)

    def connections(self) -> tuple[int, int]:
        return self.database.used, 1
