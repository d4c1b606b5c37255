"""Which streams of a broker a consumer fetches from next: tenants and tiers share what it has room for, as they do in
claims (`model/shares.py`), by sampled depths. Streams whose messages are for other consumers are left to them: until
one is for this consumer, a few messages are fetched at a time, and more only after fetches that got all of them.

Sampling stops no fetch: Kafka may take a second to answer. Until it has, the depths before count.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from math import inf

from duetime.clock import monotonic
from duetime.model.claim_plan import Agenda
from duetime.model.shares import Shares
from duetime.process.ending import end_tasks
from duetime.streams.names import StreamName
from duetime.streams.protocol import Broker, Delivery, Depth

SAMPLED_FOR = 0.1
"""Seconds for which depths are used."""
_SAMPLE_SHARE = 4
"""How many times as long as a sample took its depths are used, at least."""
_PROMPT = 0.02
"""Seconds for which a fetch waits for the depths: Redis answers earlier."""
_LIKELY = 8
"""While depths are unknown, a stream that had messages last gets so many times the room of another."""
_ALL = 1 << 62
_FIRST_LEFT, _LONGEST_LEFT = 0.5, 5.0
"""Seconds for which a stream is left to consumers that have its tasks, after a fetch of runs that are for none of the
tasks here: first, and at most. A run that lands for another worker costs more than one of a store queue."""
_PROBE = 10
"""Messages of a stream that are fetched to find out whose they are; twice as many after each fetch that got all of
them, so that runs of a task that no worker has do not hold up those behind them."""
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
        self._gave: Set[str] = frozenset()
        """The streams that had messages at the last fetch."""
        self._sampling: asyncio.Task[Mapping[str, Depth]] | None = None
        self._sampled_at = 0.0
        self._left: dict[str, float] = {}
        """Streams that are left to other consumers, and until when."""
        self._left_for: dict[str, float] = {}
        """For how many seconds they were left last, because their runs are for others."""
        self._probes: dict[str, int] = {}
        """How many messages are fetched of streams that had none for this consumer; `_PROBE` at first."""
        self._ours: set[str] = set()
        """Streams whose messages are for this consumer, as far as it knows."""
        self._full: Set[str] = frozenset()
        """The streams that gave all that was asked for at the last fetch."""
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
        takes, wait = await self._planned(streams, room, weights, wait)
        return [(stream, min(take, self._most(stream))) for stream, take in takes], wait

    def _most(self, stream: str) -> int:
        """How many messages of a stream may be fetched at once. Others cannot fetch from parts of this consumer."""
        if stream in self._ours or self._broker.partitioned:
            return _ALL
        return self._probes.get(stream, _PROBE)

    async def _planned(
        self, streams: Sequence[str], room: int, weights: Mapping[int, int], wait: float
    ) -> tuple[list[tuple[str, int]], float]:
        if len(streams) == 1:
            return [(streams[0], room)], 0.0 if self._may_have_more else wait
        if self._may_have_more:
            await self._sample(streams)
        self._shares.weights = weights
        dealt = self._shares.deal(self._agenda, [room])
        if dealt:
            return [(self._in_agenda[number], take) for number, take in dealt], 0.0
        likely = {stream: _LIKELY if stream in self._gave else 1 for stream in streams}
        total = sum(likely.values())
        return [(stream, max(1, room * part // total)) for stream, part in likely.items()], wait

    def learn(self, takes: Sequence[tuple[str, int]], deliveries: Sequence[Delivery]) -> None:
        """What a fetch says about the streams."""
        got = Counter(delivery.stream for delivery in deliveries)
        self._gave = got.keys()
        # A consumer with parts of a stream gives what it has read ahead, which may be little of what is there.
        least = 1 if self._broker.partitioned else _ALL
        self._full = {stream for stream, take in takes if got[stream] >= min(least, take)}
        self._may_have_more = bool(self._full)
        for stream, take in takes:
            if got[stream] < min(least, take) and stream in self._in_agenda:
                self._shares.gave_less(self._agenda, self._in_agenda.index(stream), take - got[stream])

    def learn_whose(self, stream: str, *, ours: bool) -> None:
        """Leave a stream alone for a moment if all its runs, carried and announced, are of tasks that are unknown
        here. Not if others cannot fetch what is left."""
        if self._broker.partitioned:
            return
        now = monotonic()
        if ours:
            self._ours_at[stream] = now
            self._ours.add(stream)
            self._left_for.pop(stream, None)
            self._probes.pop(stream, None)
        elif now - self._ours_at.get(stream, -inf) > _LONGEST_LEFT:
            seconds = self._left_for[stream] = min(_LONGEST_LEFT, 2 * self._left_for.get(stream, _FIRST_LEFT / 2))
            self._left[stream] = now + seconds
            self._ours.discard(stream)
            self._probes[stream] = min(_ALL, 2 * self._probes.get(stream, _PROBE)) if stream in self._full else _PROBE

    def leave_unreadable(self, stream: str) -> bool:
        """Leave a stream to processes that can read it: the message comes back to them after a lease. False if it was
        left before."""
        now = monotonic()
        fresh = self._left.get(stream, 0.0) <= now
        self._left[stream] = now + _UNREADABLE_FOR
        return fresh

    async def _sample(self, streams: Sequence[str]) -> None:
        """Renew the agenda, if that is due and the broker answers at once; otherwise a later fetch renews it."""
        if self._sampling is None:
            if monotonic() < self._agenda_until:
                return
            self._sampled_at = monotonic()
            self._sampling = asyncio.create_task(self._depths(streams))
            await asyncio.wait({self._sampling}, timeout=_PROMPT)
        if not self._sampling.done():
            return
        sampling, self._sampling = self._sampling, None
        depths = sampling.result()
        self._in_agenda = [stream for stream in streams if stream in depths and depths[stream].messages]
        groups = []
        for stream in self._in_agenda:
            name = self._streams[stream]
            groups.append((name.tenant_id or 0, int(name.tier), depths[stream].messages))
        self._agenda = Agenda.of_depths(groups)
        now = monotonic()
        self._agenda_until = now + max(SAMPLED_FOR, _SAMPLE_SHARE * (now - self._sampled_at))

    async def _depths(self, streams: Sequence[str]) -> Mapping[str, Depth]:
        return await self._broker.depths(streams, ages=False)

    async def close(self) -> None:
        """Ask no more."""
        await end_tasks([self._sampling])
