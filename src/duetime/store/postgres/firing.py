"""Firing: due cursors become runs, and move on, in one transaction."""

from duetime.model.firing import DueJob, Fire, SetAside
from duetime.model.lane import LaneKey
from duetime.store.postgres.database import SQL, columns
from duetime.store.postgres.role import Role
from duetime.store.protocol import Hint, PlanFires, Scan


class FiringRole(Role):
    async def fire_due(self, limit: int, plan: PlanFires) -> Scan:
        fires: list[Fire] = []
        aside: list[SetAside] = []
        async with self.database.transaction() as connection:
            rows = await connection.fetch(SQL["due_cursors"], limit)
            if rows:
                due = [DueJob(row[0], LaneKey(row[1], row[2], row[3], row[4]), row[5], row[6]) for row in rows]
                now = await connection.fetchval(SQL["clock"])
                for decided in plan(due, now):
                    if isinstance(decided, Fire):
                        fires.append(decided)
                    else:
                        aside.append(decided)
            if fires:
                lanes = await self.lane_book.ids_within(connection, {fire.lane for fire in fires})
                made = [
                    (
                        fire.job_id,
                        fire.run_id,
                        lanes[fire.lane],
                        fire.due_at,
                        fire.next_fire_at,
                        fire.scan_at,
                        fire.recurring,
                    )
                    for fire in fires
                ]
                await connection.execute(SQL["fire"], *columns(made, 7))
            if aside:
                await connection.execute(
                    SQL["set_aside"], [item.job_id for item in aside], [item.problem for item in aside]
                )
            next_in = await connection.fetchval(SQL["next_scan"])
        if fires:
            self.hints.give(Hint.READY)
        return Scan(len(fires), tuple(aside), len(rows), next_in)
