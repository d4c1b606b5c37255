"""Messages that do not run where they were fetched: carried runs land and wait, others go aside."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from duetime.errors import DuetimeError, StoreRejected, StoreUnavailable, reason_of
from duetime.ids import show
from duetime.model.carried import CarriedRun, Landed
from duetime.store.protocol.store import Store
from duetime.streams.message import Refused
from duetime.streams.names import StreamName
from duetime.streams.protocol import Broker, Delivery
from duetime.telemetry.meters import Meters

log = logging.getLogger("duetime.streams")

_MOST = 1000
_REFUSED_KEPT = 1000


class ToLand(NamedTuple):
    run: CarriedRun
    delivery: Delivery
    how: Landed
    reason: str


class Lander:
    """For one broker. Everything that it returns may be acknowledged."""

    def __init__(self, store: Store, broker: Broker, streams: Mapping[str, StreamName], meters: Meters) -> None:
        self._store = store
        self._broker = broker
        self._streams = streams
        self._meters = meters

    async def land(self, waiting: Sequence[ToLand]) -> list[Delivery]:
        """Store these runs. Raises `StoreUnavailable`; may be repeated."""
        done: list[Delivery] = []
        for how in dict.fromkeys(each.how for each in waiting):
            group = [each for each in waiting if each.how is how]
            for start in range(0, len(group), _MOST):
                done += await self._land(group[start : start + _MOST], how)
        return done

    async def _land(self, group: Sequence[ToLand], how: Landed) -> list[Delivery]:
        try:
            await self._store.streams.land([each.run for each in group], how)
        except StoreUnavailable:
            raise
        except DuetimeError as error:
            if len(group) > 1:
                middle = len(group) // 2
                return [*await self._land(group[:middle], how), *await self._land(group[middle:], how)]
            (only,) = group
            log.error("%s cannot be stored: %s", show("run", only.run.run_id), reason_of(error))
            if not isinstance(error, StoreRejected):
                return []  # it comes back after a lease
            reason = Refused(f"it cannot be stored: {error}")
            return [await self.refuse(only.delivery, reason)]
        self._meters.landed.update(Counter(each.reason for each in group))
        return [each.delivery for each in group]

    async def refuse(self, delivery: Delivery, why: Refused) -> Delivery:
        """Keep a message that is not duetime's in a bounded side stream. Raises `StreamUnavailable`."""
        name = self._streams[delivery.stream]
        depths = await self._broker.depths([name.refused])
        if name.refused not in depths:
            await self._broker.check([name.refused])
        if name.refused not in depths or depths[name.refused].messages < _REFUSED_KEPT:
            await self._broker.publish(name.refused, [delivery.body])
        self._meters.stream_refused += 1
        log.error("a message in %s was refused: %s", name.text, why.reason)
        return delivery
