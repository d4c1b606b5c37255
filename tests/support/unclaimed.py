"""The runs that no worker has claimed, as the table has them: a look shows no more than a claimer needs."""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from duetime.model.microseconds import moment

_WHERE = "where worker_id is null and lane_id > 0 order by ready_at, id"


class Unclaimed(NamedTuple):
    run_id: UUID
    lane_id: int
    ready_at: datetime


async def unclaimed(store: Any) -> list[Unclaimed]:
    if store.embedded:
        read = f"select id, lane_id, ready_at from runs {_WHERE}"
        rows = await store.database.run(lambda connection, _: connection.raw.execute(read).fetchall())
        return [Unclaimed(UUID(bytes=run_id), lane_id, moment(ready_at)) for run_id, lane_id, ready_at in rows]
    read = f"select id, lane_id, ready_at from duetime.runs {_WHERE}"
    async with store.database.connection() as connection:
        return [Unclaimed(*row) for row in await connection.fetch(read)]
