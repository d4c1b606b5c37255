"""Redis, or Valkey: a stream is a Redis stream with one consumer group.

    held          in the consumer's list of pending entries; `extend` resets their idle time
    redelivered   what has been idle for a lease is claimed by another consumer
    done          acknowledged and deleted in one step, so the length of a stream is what is not done

The group starts at id 0 and streams are never trimmed, so no message is skipped. A consumer is deleted only while it
holds nothing, and one script checks and deletes: otherwise its messages would never be delivered again.

A message is one entry with one field. Batches go through scripts: one command and one answer for hundreds of messages
cost the client a tenth of what a pipeline costs (docs/decisions/0025-broker-clients.md).
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from redis.exceptions import RedisError, ResponseError

from duetime.clock import monotonic
from duetime.errors import StreamUnavailable, reason_of
from duetime.process.slices import batches
from duetime.streams.address import client_address
from duetime.streams.protocol import Delivery, Depth, answered
from duetime.streams.redis_checks import info_of, warnings_of
from duetime.streams.redis_connections import RedisConnections
from duetime.streams.sizes import check_sizes
from duetime.streams.unbroken import Unbroken

_GROUP = "duetime"
_OPTIONS = frozenset({"db", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname"})
_REPLICATED = 2500
"""Milliseconds in which replicas must confirm a message."""
_BLOCK = 1.0
"""The maximum seconds of one blocking read, well below the timeout."""
_PUBLISHING = 32
"""How many calls of `publish` use a connection at the same time."""
_MOST, _MOST_BYTES = 500, 4 * 1024**2
"""Messages and bytes in one command: Redis does nothing else meanwhile, about a millisecond."""
_STREAMS = 200
"""Streams in one script."""
_SWEEPS = 8
"""How many times a lease a consumer looks for messages that others have lost."""
_FORGOTTEN = 20
"""Leases after which a silent consumer that holds nothing is deleted."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_ADD = "for i = 1, #ARGV do redis.call('XADD', KEYS[1], '*', 'm', ARGV[i]) end"
# The ids are one argument: each argument costs the client more than a split costs Redis.
_DONE = """
local ids = {}
for id in string.gmatch(ARGV[1], '[^ ]+') do ids[#ids + 1] = id end
redis.call('XACK', KEYS[1], 'duetime', unpack(ids))
redis.call('XDEL', KEYS[1], unpack(ids))
"""
_DEPTHS = """
local found = {}
for i, key in ipairs(KEYS) do
    local first = redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
    found[i] = {redis.call('EXISTS', key), redis.call('XLEN', key), first and first[1] or ''}
end
return found
"""
_RELEASE = """
local name, idle, after = ARGV[1], ARGV[2], ARGV[3]
local held = redis.call('XPENDING', KEYS[1], 'duetime', after, '+', 500, name)
for _, entry in ipairs(held) do
    redis.call('XCLAIM', KEYS[1], 'duetime', name, 0, entry[1], 'IDLE', idle, 'JUSTID')
end
if #held > 0 then return held[#held][1] end
if after == '-' then redis.call('XGROUP', 'DELCONSUMER', KEYS[1], 'duetime', name) end
"""
_FORGET = """
for _, key in ipairs(KEYS) do
    -- without the group, the answer is an error, and has no first item
    for _, consumer in ipairs(redis.pcall('XINFO', 'CONSUMERS', key, 'duetime')) do
        local name, pending, idle = consumer[2], consumer[4], consumer[6]
        if pending == 0 and idle > tonumber(ARGV[1]) then
            redis.call('XGROUP', 'DELCONSUMER', key, 'duetime', name)
        end
    end
end
"""


class RedisBroker:
    shared = partitioned = False
    largest = 1024**2

    def __init__(self, address: str, *, replicas: int | None = None) -> None:
        self._redis = RedisConnections(
            client_address(address, _OPTIONS, "redis://user:password@host:6379/0", numbered=True)
        )
        self._replicas = replicas
        self._publishing = asyncio.Semaphore(_PUBLISHING)

    async def open(self) -> None:
        with _Reaching():
            await self._redis.ask("PING")

    async def close(self) -> None:
        await self._redis.close()

    async def check(self, streams: Sequence[str]) -> list[str]:
        with _Reaching():
            info = await self._redis.ask("INFO")
            try:
                _, fsync = await self._redis.ask("CONFIG", "GET", "appendfsync")
            except (ResponseError, ValueError):
                fsync = None  # managed services refuse CONFIG
        warnings = warnings_of(info_of(info), fsync, self._replicas)
        with _Reaching():
            await _create_groups(self._redis, streams)
        return warnings

    async def publish(self, stream: str, bodies: Sequence[bytes], within: float | None = None) -> None:
        check_sizes(bodies, self.largest)
        if len(bodies) == 1 and self._replicas is None and not self._publishing.locked():
            # One command, which has a deadline of its own: a timeout costs more than all else here.
            async with self._publishing:
                with _Reaching():
                    await self._redis.ask("XADD", stream, "*", "m", bodies[0], within=within)
        else:
            await answered(self._publish(stream, bodies), within)

    async def _publish(self, stream: str, bodies: Sequence[bytes]) -> None:
        async with self._publishing:
            with _Reaching():
                for batch in batches(bodies, _MOST, _MOST_BYTES, len):
                    await self._add(stream, batch)

    async def _add(self, stream: str, bodies: Sequence[bytes]) -> None:
        command = ("XADD", stream, "*", "m", *bodies) if len(bodies) == 1 else ("EVAL", _ADD, 1, stream, *bodies)
        if self._replicas is None:
            await self._redis.ask(*command)
            return
        added, reached = await self._redis.ask_all([command, ("WAIT", self._replicas, _REPLICATED)])
        for answer in added, reached:
            if isinstance(answer, ResponseError):
                raise answer
        if reached < self._replicas:
            raise StreamUnavailable(f"Redis: {reached} of {self._replicas} replicas have the message")

    async def depths(self, streams: Sequence[str], *, ages: bool = True) -> Mapping[str, Depth]:
        found = {}
        with _Reaching():
            for start in range(0, len(streams), _STREAMS):
                part = streams[start : start + _STREAMS]
                answer = await self._redis.ask("EVAL", _DEPTHS, len(part), *part)
                for stream, (exists, messages, first) in zip(part, answer, strict=True):
                    if exists:
                        found[stream] = Depth(messages, _time_of(first) if first else None)
        return found

    async def consumer(self, streams: Sequence[str], name: str, lease: float) -> "RedisConsumer":
        # A missing group is created by the first fetch: a full Redis creates none, but can still be emptied.
        with _Reaching():
            for start in range(0, len(streams), _STREAMS):
                part = streams[start : start + _STREAMS]
                silent = int(lease * 1000 * _FORGOTTEN)
                await self._redis.ask("EVAL", _FORGET, len(part), *part, silent)
        return RedisConsumer(self._redis, name, lease)


class RedisConsumer:
    def __init__(self, redis: RedisConnections, name: str, lease: float) -> None:
        self._redis = redis
        self._name = name
        self._lease = lease
        self._lease_ms = int(lease * 1000)
        self._sweeps: dict[str, tuple[float, bytes]] = {}
        """When to look for lost messages of a stream again, and from which id on."""
        self._reading = Unbroken[list[Delivery]]()
        self._kept: list[Delivery] = []
        """What was read for a fetch that was cancelled."""
        self._kept_until = 0.0

    async def fetch(self, takes: Sequence[tuple[str, int]], wait: float) -> list[Delivery]:
        takes = [take for take in takes if take[1] > 0]
        until = monotonic() + wait
        left = await self._reading.finish()
        if left:
            self._kept += left
            self._kept_until = monotonic() + self._lease / 2
        found = self._from_kept(takes)
        if found or not takes:
            return found
        return await self._reading.run(self._read(takes, until))

    async def extend(self, deliveries: Sequence[Delivery]) -> None:
        with _Reaching():
            for stream, ids in _by_stream(deliveries):
                try:
                    await self._redis.ask("XCLAIM", stream, _GROUP, self._name, 0, *ids, "JUSTID")
                except ResponseError as error:
                    if not _lacks_group(error):  # Redis has lost its data: no other consumer can get the messages
                        raise

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        with _Reaching():
            for stream, ids in _by_stream(deliveries):
                await self._redis.ask("EVAL", _DONE, 1, stream, b" ".join(ids))

    async def close(self) -> None:
        await self._reading.cancel()
        with suppress(RedisError, OSError):  # what is held comes back after a lease
            for stream in self._sweeps:
                after: bytes | str | None = "-"
                while after is not None:
                    release = (self._name, self._lease_ms + 1, after)
                    last = await self._redis.ask("EVAL", _RELEASE, 1, stream, *release)
                    after = b"(" + last if last is not None else None

    def _from_kept(self, takes: Sequence[tuple[str, int]]) -> list[Delivery]:
        if not self._kept:
            return []
        if monotonic() > self._kept_until:  # others may hold these by now
            self._kept = []
            return []
        wanted = dict(takes)
        found, kept = [], []
        for delivery in self._kept:
            if wanted.get(delivery.stream, 0) > 0:
                wanted[delivery.stream] -= 1
                found.append(delivery)
            else:
                kept.append(delivery)
        self._kept = kept
        return found

    async def _read(self, takes: Sequence[tuple[str, int]], until: float) -> list[Delivery]:
        with _Reaching():
            while True:
                found = await self._lost(takes)
                if found:
                    return found
                next_sweep = min(self._sweeps[stream][0] for stream, _ in takes)
                found = await self._new(takes, min(until, next_sweep) - monotonic())
                if found or monotonic() >= until or self._reading.abandoned.is_set():
                    return found

    async def _lost(self, takes: Sequence[tuple[str, int]]) -> list[Delivery]:
        """Claim what other consumers have not extended for a lease."""
        now = monotonic()
        due = [(stream, count) for stream, count in takes if self._sweeps.get(stream, (0.0,))[0] <= now]
        if not due:
            return []
        claim = (_GROUP, self._name, self._lease_ms)
        starts = [self._sweeps.get(stream, (now, b"0-0"))[1] for stream, _ in due]
        answers = await self._redis.ask_all(
            [
                ("XAUTOCLAIM", stream, *claim, start, "COUNT", count)
                for (stream, count), start in zip(due, starts, strict=True)
            ]
        )
        found = []
        for (stream, _), answer in zip(due, answers, strict=True):
            if isinstance(answer, ResponseError):
                if not _lacks_group(answer):
                    raise answer
                self._sweeps[stream] = now + self._lease / _SWEEPS, b"0-0"
            else:
                # An answer covers a part of the pending entries, and says where the next part starts.
                start, entries = answer[0], answer[1]
                self._sweeps[stream] = now + (self._lease / _SWEEPS if start == b"0-0" else 0.01), start
                # Before Redis 7, an entry that was deleted is None.
                found += [Delivery(stream, entry[1][1], True, entry[0]) for entry in entries if entry is not None]
        return found

    async def _new(self, takes: Sequence[tuple[str, int]], wait: float) -> list[Delivery]:
        """One read over all streams, whose count suits the smallest take. Then more of the streams that have more."""
        least = min(count for _, count in takes)
        wanted, streams = dict(takes), [stream for stream, _ in takes]
        block = ("BLOCK", max(1, int(min(wait, _BLOCK) * 1000))) if wait > 0 else ()
        read = ("XREADGROUP", "GROUP", _GROUP, self._name, "COUNT")
        try:
            answer = await self._redis.ask(*read, least, *block, "STREAMS", *streams, *[">"] * len(streams))
        except ResponseError as error:
            if not _lacks_group(error):
                raise
            # Redis has lost its data, or a stream is new to this consumer.
            await _create_groups(self._redis, streams)
            return []
        found = _deliveries(answer)
        more = {key.decode(): len(entries) for key, entries in answer or () if len(entries) == least}
        more = {stream: wanted[stream] - count for stream, count in more.items() if wanted[stream] > count}
        if more:
            with suppress(RedisError, OSError):  # what was found is in hand
                reads = [(*read, count, "STREAMS", stream, ">") for stream, count in more.items()]
                for answer in await self._redis.ask_all(reads):
                    found += [] if isinstance(answer, ResponseError) else _deliveries(answer)
        return found


async def _create_groups(redis: RedisConnections, streams: Sequence[str]) -> None:
    """See to it that these streams exist, each with its group, which starts at the first message."""
    creations = [("XGROUP", "CREATE", stream, _GROUP, "0", "MKSTREAM") for stream in streams]
    for answer in await redis.ask_all(creations) if creations else ():
        if isinstance(answer, ResponseError) and not str(answer).startswith("BUSYGROUP"):
            raise answer


class _Reaching:
    """Errors of Redis, and of the connection to it, as `StreamUnavailable`. A class, because every publish enters it: a
    generator costs several times as much."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (RedisError, OSError)):
            raise StreamUnavailable(f"Redis: {reason_of(error)}") from error


def _deliveries(answer: Any) -> list[Delivery]:
    """The messages in an answer to XREADGROUP, which is None when there are none."""
    found: list[Delivery] = []
    for key, entries in answer or ():
        stream = key.decode()
        found += [Delivery(stream, fields[1], False, entry_id) for entry_id, fields in entries]
    return found


def _by_stream(deliveries: Sequence[Delivery]) -> Iterator[tuple[str, list[bytes]]]:
    """The ids of these messages by stream, so many at a time that a script can unpack them."""
    ids = defaultdict(list)
    for delivery in deliveries:
        ids[delivery.stream].append(delivery.ref)
    for stream, refs in ids.items():
        for start in range(0, len(refs), _MOST):
            yield stream, refs[start : start + _MOST]


def _lacks_group(error: ResponseError) -> bool:
    return str(error).startswith(("NOGROUP", "UNBLOCKED"))


def _time_of(entry_id: bytes) -> datetime:
    return _EPOCH + timedelta(milliseconds=int(entry_id.partition(b"-")[0]))
