"""Trends: minutes are counted once, whichever node is first; each is added to its hour in the same transaction."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from duetime.model.trends import LOOK_BACK, MINUTE, SETTLING, Pace, added, outcome_of, scaled
from duetime.store.shared.transaction import Row, SharedRole, Transaction

_decode = msgspec.json.Decoder(Pace).decode
_encode = msgspec.json.encode
Place = tuple[int, datetime]
"""A tenant, and the begin of an interval."""


class Ended(NamedTuple):
    rows: Sequence[Row]
    covered: datetime
    """From when on all attempts were read."""


class TrendRole(SharedRole, ABC):
    @abstractmethod
    async def _ended(self, since: datetime, until: datetime) -> Ended:
        """How many attempts ended in each minute, by tenant, outcome and size class (the statement `pace`)."""

    async def count_trends(self, now: datetime) -> int:
        until = (now - SETTLING).replace(second=0, microsecond=0)
        since = until - LOOK_BACK
        ended = await self._ended(since, until)
        paces = _minutes(ended, since, until)
        if not paces:
            return 0
        return await self.transactions.run(lambda transaction: _keep(transaction, paces))

    async def trends(self, tenant_id: int, step: timedelta, since: datetime) -> list[tuple[datetime, Pace]]:
        wanted = {"tenant_id": tenant_id, "step": int(step.total_seconds()), "since": since}
        rows = await self.transactions.reading(tenant_id).rows("list_trends", **wanted)
        return [(row["at"], _decode(row["body"])) for row in rows]


def _minutes(ended: Ended, since: datetime, until: datetime) -> dict[Place, Pace]:
    found: dict[Place, dict[str, Any]] = {}
    for row in ended.rows:
        place = row["tenant_id"], since + MINUTE * row["stretch"]
        counts = found.setdefault(place, {"lags": {}, "took": {}})
        if row["kind"] in ("lags", "took"):
            counts[row["kind"]][row["number"]] = row["count"]
        elif (name := outcome_of(row["number"])) is not None:
            counts[name] = counts.get(name, 0) + row["count"]
    # Of minutes before the covered time, only the last one is kept, from the part that was read.
    first = ended.covered.replace(second=0, microsecond=0)
    covered = (MINUTE - (ended.covered - first)) / MINUTE
    return {
        (tenant_id, at): Pace(**counts) if at >= ended.covered else scaled(Pace(**counts), 1 / max(covered, 0.01))
        for (tenant_id, at), counts in found.items()
        if at >= ended.covered or (at == first and at == until - MINUTE)
    }


async def _keep(transaction: Transaction, paces: Mapping[Place, Pace]) -> int:
    minutes = [(tenant_id, at, _encode(pace)) for (tenant_id, at), pace in sorted(paces.items())]
    fields = ("tenant_id", "at", "body")
    new = await transaction.each("keep_minutes", fields, minutes)
    hours: dict[Place, list[Pace]] = {}
    for row in new:
        at = row["at"].replace(minute=0)
        hours.setdefault((row["tenant_id"], at), []).append(paces[row["tenant_id"], row["at"]])
    places = sorted(hours)
    for row in await transaction.each("hold_hours", ("tenant_id", "at"), places):
        hours[row["tenant_id"], row["at"]].append(_decode(row["body"]))
    await transaction.put("keep_hours", fields, _sums(places, hours))
    return len(new)


def _sums(places: Iterable[Place], hours: Mapping[Place, Sequence[Pace]]) -> list[tuple[int, datetime, bytes]]:
    return [(tenant_id, at, _encode(added(hours[tenant_id, at]))) for tenant_id, at in places]
