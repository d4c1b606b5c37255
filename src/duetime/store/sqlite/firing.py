"""Firing: due cursors become runs, and move on, in one transaction."""

from duetime.model.firing import DueJob, Fire, SetAside
from duetime.model.lane import LaneKey
from duetime.store.protocol import Hint, PlanFires, Scan
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import duration, identity, maybe_stamp, moment, stamp


class FiringRole(Role):
    async def fire_due(self, limit: int, plan: PlanFires) -> Scan:
        def work(connection: Connection, now: int) -> Scan:
            rows = connection.rows("due_cursors", {"now": now, "limit": limit})
            due = [DueJob(identity(row[0]), LaneKey(*row[1:5]), row[5], moment(row[6])) for row in rows]
            decided = plan(due, moment(now)) if due else ()
            fires = [item for item in decided if isinstance(item, Fire)]
            aside = tuple(item for item in decided if isinstance(item, SetAside))
            self._fire(connection, now, fires)
            connection.many("set_aside", [{"job_id": item.job_id.bytes, "problem": item.problem} for item in aside])
            next_scan = connection.value("next_scan", {})
            return Scan(len(fires), aside, len(rows), None if next_scan is None else duration(next_scan - now))

        scan = await self.database.run(work)
        if scan.fired:
            self.hints.give(Hint.READY)
        return scan

    def _fire(self, connection: Connection, now: int, fires: list[Fire]) -> None:
        lanes = self.lane_book.ids(connection, {fire.lane for fire in fires})
        connection.many(
            "fire",
            [
                {
                    "job_id": fire.job_id.bytes,
                    "run_id": fire.run_id.bytes,
                    "lane_id": lanes[fire.lane],
                    "due_at": stamp(fire.due_at),
                    "next_fire_at": maybe_stamp(fire.next_fire_at),
                    "scan_at": maybe_stamp(fire.scan_at),
                    "recurring": fire.recurring,
                    "now": now,
                }
                for fire in fires
            ],
        )
