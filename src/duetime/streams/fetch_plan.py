"""Which streams of a broker a consumer fetches from next: tenants and tiers share what it has room for, as they do in
claims (`model/shares.py`), by sampled depths. Streams whose messages are for other consumers are left to them."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import inf

from duetime.clock import monotonic
from duetime.model.claim_plan import Agenda
from duetime.model.shares import Shares
from duetime.streams.names import StreamName
from duetime.streams.protocol import Broker, Delivery

SAMPLED_FOR = 0.1
"""Seconds for which depths are used."""
_FIRST_LEFT, _LONGEST_LEFT = 0.5, 5.0
"""Seconds for which a stream is left to consumers that have its tasks, after a fetch of runs that are for none of the
tasks here: first, and at most. A run that lands for another worker costs more than one of a store queue."""
_UNREADABLE_FOR = 60.0
"""Seconds for which a stream is not consumed after a message that only other processes can read."""


class FetchPlan:
    def __init__(self, broker: Broker, streams: Mapping[str, StreamName], *, strict: bool = False) -> None:
        self._broker = broker
        self._streams = streams
        self._shares = Shares(strict=strict)
        self._agenda = Agenda()
        self._agenda_until = 0.0
        self._in_agenda: list[str] = []
        self._may_have_more = False
        self._left: dict[str, float] = {}
        """Streams that are left to other consumers, and until when."""
        self._left_for: dict[str, float] = {}
        """For how many seconds they were left last, because their runs are for others."""
        self._ours_at: dict[str, float] = {}
        """When a stream last had a run for this consumer."""

    def open(self, paused: Collection[str] = ()) -> list[str]:
        """The streams to fetch from now."""
        now = monotonic()
        return [each for each in self._streams if each not in paused and self._left.get(each, 0.0) <= now]

    async def takes(
        self, streams: Sequence[str], room: int, weights: Mapping[int, int], wait: float
    ) -> tuple[list[tuple[str, int]], float]:
        """How many messages of which of these streams to fetch, and how long to wait for the first, at most `wait`."""
        if len(streams) == 1:
            return [(streams[0], room)], 0.0 if self._may_have_more else wait
        if self._may_have_more and monotonic() >= self._agenda_until:
            await self._sample(streams)
        self._shares.weights = weights
        dealt = self._shares.deal(self._agenda, [room])
        if dealt:
            return [(self._in_agenda[number], take) for number, take in dealt], 0.0
        return [(stream, max(1, room // len(streams))) for stream in streams], wait

    def learn(self, takes: Sequence[tuple[str, int]], deliveries: Sequence[Delivery]) -> None:
        """What a fetch says about the streams."""
        got = Counter(delivery.stream for delivery in deliveries)
        self._may_have_more = any(got[stream] >= take for stream, take in takes)
        for stream, take in takes:
            if got[stream] < take and stream in self._in_agenda:
                self._shares.gave_less(self._agenda, self._in_agenda.index(stream), take - got[stream])

    def learn_whose(self, stream: str, *, ours: bool) -> None:
        """Leave a stream alone for a moment if all its runs, carried and announced, are of tasks that are unknown
        here. Not if others cannot fetch what is left."""
        if self._broker.partitioned:
            return
        now = monotonic()
        if ours:
            self._ours_at[stream] = now
            self._left_for.pop(stream, None)
        elif now - self._ours_at.get(stream, -inf) > _LONGEST_LEFT:
            seconds = self._left_for[stream] = min(_LONGEST_LEFT, 2 * self._left_for.get(stream, _FIRST_LEFT / 2))
            self._left[stream] = now + seconds

    def leave_unreadable(self, stream: str) -> bool:
        """Leave a stream to processes that can read it: the message comes back to them after a lease. False if it was
        left before."""
        now = monotonic()
        fresh = self._left.get(stream, 0.0) <= now
        self._left[stream] = now + _UNREADABLE_FOR
        return fresh

    async def _sample(self, streams: Sequence[str]) -> None:
        depths = await self._broker.depths(streams)
        self._in_agenda = [stream for stream in streams if stream in depths and depths[stream].messages]
        groups = []
        for stream in self._in_agenda:
            name = self._streams[stream]
            groups.append((name.tenant_id or 0, int(name.tier), depths[stream].messages))
        self._agenda = Agenda.of_depths(groups)
        self._agenda_until = monotonic() + SAMPLED_FOR
