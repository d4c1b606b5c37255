"""One stream, as one consumer reads it from Kafka.

A thread reads ahead what the next fetches ask for. Nothing is started by that: `take` starts messages, and before the
worker sees them, Kafka has to know that they may have been started. The thread says so of all that it has read, so few
fetches wait for a commit. Only that thread calls Kafka's client, which allows one caller at a time. A partition changes
hands like this:

    assigned   its committed state says where to begin, and what may have been started (`kafka_offsets`)
    revoked    nothing more is handed out; the partition is given up when what is held is done or its lease over
    lost       it belongs to another consumer already: what is held is not ours any more

What was handed out, and is neither done nor extended for a lease, is handed out again, as redelivered: another broker
would do the same, and a message that was forgotten must not hold up its partition. Whenever it leaves the group by
itself, it tells Kafka first that nothing of what it has read ahead was started.

Nothing is committed for a partition that was given up: Kafka accepts an offset from each member of the group, and an
old state would hide what the new owner has started.

Heartbeats come from the client's own thread. A consumer that is not called for a lease leaves the group, as if it had
died: a worker that hangs must not keep its messages.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from msgspec.structs import replace

from duetime.clock import monotonic
from duetime.errors import StreamUnavailable, reason_of
from duetime.streams.kafka_offsets import PartitionOffsets
from duetime.streams.protocol import Delivery

_POLL = 0.2
"""Seconds of one blocking read."""
_POLL_WITH_WORK = 0.01
"""The same while messages are held, which may have to be committed."""
MAY_WAIT = 0.05
"""Seconds that a commit of what is done may wait for another one: each takes Kafka milliseconds, also of one offset."""
_REBALANCING = 0.02
"""Seconds between tries to commit during a rebalance."""
_SOON_DONE = 0.25
"""Seconds after which messages that were handed out are looked at: most are done by then."""
_IDLE = 1.0
"""Seconds without demand after which the partitions are paused, so that only rebalances are served."""
TIMEOUT = 5.0
"""Seconds to wait for an answer."""
_FENCED = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError._FENCED,
    KafkaError._STATE,
}
_SUSPICIOUS = {KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._RESOLVE}


_Change = Callable[[Consumer, list[TopicPartition]], None]
"""What is called when partitions are assigned, revoked or lost."""


class Fenced(StreamUnavailable):
    """This consumer is not in its group any more: its messages are delivered to others."""


class Part:
    """A partition, for as long as this consumer owns it."""

    __slots__ = ("committed", "ending", "gap", "lost", "number", "offsets", "position", "reader", "trimmed", "waiting")

    def __init__(self, reader: "StreamReader", number: int, offsets: PartitionOffsets) -> None:
        self.reader = reader
        self.number = number
        self.offsets = offsets
        self.position = offsets.offset
        """What the thread reads next."""
        self.gap: tuple[int, int] | None = None
        self.waiting: deque[tuple[int, bytes]] = deque()
        """What was read and is too far ahead of the first message that is not done."""
        self.committed = self.trimmed = offsets.offset
        self.ending = False
        self.lost = False


class Place(NamedTuple):
    """Where a message is: the handle of its delivery."""

    part: Part
    offset: int


class _State(NamedTuple):
    """What is committed of a partition."""

    offset: int
    text: str
    announced_to: int


class _Commit(NamedTuple):
    states: Mapping[Part, _State]
    ended: "asyncio.Future[None]"
    at: float
    """When it has to begin; earlier, if another one does."""
    deadline: float


class StreamReader:
    def __init__(self, stream: str, client: dict[str, Any], lease: float, arrived: Callable[[], None]) -> None:
        """`arrived` is called from the thread, when there is something to take or a failure."""
        self.stream = stream
        self.failure: StreamUnavailable | None = None
        self._configuration = {**client, "group.id": stream, "error_cb": self._suspect}
        self._lease = lease
        self._arrived = arrived
        self._loop = asyncio.get_running_loop()
        self._heard = monotonic()
        self._wanted_at = 0.0
        self._want = self._asked = self._served = 0
        self._closing = False
        self._leaving = False
        self._leaving_since = 0.0
        self._suspicious = False
        self._is_member = False
        self._parts: dict[int, Part] = {}
        self._read: deque[tuple[Part, int, bytes]] = deque()
        self._returned: deque[Delivery] = deque()
        self._taken: deque[tuple[float, list[Delivery]]] = deque()
        """What was handed out since the last look, and when."""
        self._held: dict[Place, tuple[float, Delivery]] = {}
        """What was handed out before that, or extended, and was not done, and until when it is held."""
        self._held_until = 0.0
        """Until when the last extended message is held."""
        self._look_at = 0.0
        self._confirmed_at = -inf
        """When Kafka last accepted a commit of this consumer."""
        self._client: Consumer | None = None
        self._paused: set[int] = set()
        self._commits: deque[_Commit] = deque()
        self._broken: Exception | None = None
        """The error of a callback of the client."""
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"kafka {stream}", daemon=True)
        self._thread.start()

    # From the event loop

    def hear(self) -> None:
        """The worker is alive."""
        self._heard = monotonic()

    def want(self, count: int) -> None:
        """Read ahead as many messages as this."""
        self._wanted_at = monotonic()
        with self._changed:
            self._leaving = False
            self._asked += 1
            self._want = count
            self._changed.notify_all()

    def leave(self) -> None:
        """Leave the group when nothing is held, or after half a lease, until something is wanted again."""
        with self._changed:
            if not self._leaving:
                self._leaving, self._leaving_since = True, monotonic()
            self._changed.notify_all()

    @property
    def takes_part(self) -> bool:
        """Whether it is in the group and stays there, as far as it knows."""
        return self._is_member and self.failure is None and not self._leaving

    def take(self, most: int) -> list[Delivery]:
        """Start up to so many messages of those that were read. `commit` what is `unannounced` before they are handed
        out, or `put_back`."""
        taken: list[Delivery] = []
        now = monotonic()
        with self._changed:
            self._take_back(now)
            while self._returned and len(taken) < most:
                again = self._returned.popleft()
                if not _is_over(again.ref):
                    taken.append(again)
            for part in tuple(self._parts.values()):
                while part.waiting and len(taken) < most and part.offsets.has_room(part.waiting[0][0]):
                    self._start(part, *part.waiting.popleft(), taken)
            while self._read and len(taken) < most:
                part, offset, body = self._read.popleft()
                if part.waiting or not part.offsets.has_room(offset):
                    part.waiting.append((offset, body))
                else:
                    self._start(part, offset, body, taken)
            if taken:
                self._taken.append((now, taken))
            self._changed.notify_all()
        return taken

    def extend(self, delivery: Delivery) -> None:
        """Hold this one for another lease."""
        with self._changed:
            until = monotonic() + self._lease
            self._held[delivery.ref] = until, delivery
            self._held_until = max(self._held_until, until)

    def _take_back(self, now: float) -> None:
        """Return what was handed out and has been held for too long."""
        if now < self._look_at:
            return
        self._look_at = now + _SOON_DONE
        while self._taken and self._taken[0][0] < now - _SOON_DONE:
            at, taken = self._taken.popleft()
            for delivery in taken:
                if not _is_over(delivery.ref):
                    self._held.setdefault(delivery.ref, (at + self._lease, delivery))
        for place, (until, delivery) in list(self._held.items()):
            if _is_over(place):
                del self._held[place]
            elif until < now:
                del self._held[place]
                self._returned.append(replace(delivery, redelivered=True))

    def unannounced(self, parts: Iterable[Part]) -> list[Part]:
        """Those of these partitions of which Kafka does not know how far they may have been started; all of them, when
        it has not confirmed for a while that they are this consumer's."""
        if monotonic() - self._confirmed_at > self._lease / 4:
            return list(parts)
        return [part for part in parts if part.offsets.started_to > part.offsets.announced_to]

    def put_back(self, taken: list[Delivery]) -> None:
        """Take what `take` has returned back."""
        with self._changed:
            self._returned.extend(taken)
            self._taken = deque(each for each in self._taken if each[1] is not taken)

    def finish(self, part: Part, offsets: Sequence[int]) -> None:
        if part.lost:
            return
        with self._changed:
            part.offsets.finish(offsets)
            if part.ending:
                self._changed.notify_all()
        if part.waiting:
            self._arrived()

    async def commit(self, parts: Iterable[Part], *, within: float = 0.0) -> None:
        """Store the state of these partitions, beginning within so many seconds. Raises `StreamUnavailable`."""
        states = {part: _state(part) for part in parts if not part.lost}
        if not states:
            return
        ended = self._loop.create_future()
        with self._changed:
            if self._client is None:
                raise self._fenced()
            now = monotonic()
            self._commits.append(_Commit(states, ended, now + within, now + within + TIMEOUT))
            self._changed.notify_all()
        await ended

    def finished_ranges(self) -> list[TopicPartition]:
        """Up to where records can be deleted, of the partitions in which that has changed since it was last asked."""
        found = [part for part in self.owned() if part.committed > part.trimmed and not part.lost]
        for part in found:
            part.trimmed = part.committed
        return [TopicPartition(self.stream, part.number, part.committed) for part in found]

    def owned(self) -> list[Part]:
        with self._changed:
            return list(self._parts.values())

    def end(self) -> None:
        """Leave the group."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def ended(self) -> None:
        """Wait until it has left."""
        self._thread.join()

    def _start(self, part: Part, offset: int, body: bytes, taken: list[Delivery]) -> None:
        if part.lost or part.ending:
            return
        redelivered = part.offsets.start(offset)
        if redelivered is not None:
            taken.append(Delivery(self.stream, body, redelivered, Place(part, offset)))

    # In the reading thread

    def _run(self) -> None:
        while self._wait_for_demand():
            try:
                self._client = client = Consumer(self._configuration)
                client.subscribe(
                    [self.stream],
                    on_assign=self._called_back(self._on_assign),
                    on_revoke=self._called_back(self._on_revoke),
                    on_lost=self._called_back(self._on_lost),
                )
                self._read_on(client)
            except Exception as error:
                self._fail(unavailable(error))
            finally:
                self._leave()

    def _wait_for_demand(self) -> bool:
        with self._changed:
            if self.failure is not None:
                self._changed.wait_for(lambda: self._closing, timeout=_IDLE)
            self._changed.wait_for(lambda: self._asked != self._served or self._closing)
            return not self._closing

    def _read_on(self, client: Consumer) -> None:
        polled_at = monotonic()
        while not self._closing:
            self._raise_if_broken()
            self._served = self._asked
            if self._silent():
                break
            if self._must_commit():
                self._serve_commits(client)
            if self._leaving:
                if self._may_leave(client):
                    break
                continue
            room = self._room()
            if not room:
                # Rebalances are served by polling, which may bring a message: one more does no harm.
                if monotonic() - self._wanted_at > _IDLE:
                    self._pause(client, set(self._parts))
                if monotonic() - polled_at > _POLL:
                    polled_at = monotonic()
                    self._receive(client, [message for message in (client.poll(0),) if message is not None])
                self._wait(lambda: self._room() > 0 or self._must_commit(), MAY_WAIT if self._commits else _POLL)
                continue
            self._pause(client, {number for number, part in self._parts.items() if part.waiting})
            first = client.poll(_POLL_WITH_WORK if self._may_commit() else _POLL)
            polled_at = monotonic()
            if first is not None:
                self._receive(client, [first, *(client.consume(room - 1, 0) if room > 1 else ())])
            elif self._suspicious:
                self._probe(client)
        self._commit_last(client)

    def _may_leave(self, client: Consumer) -> bool:
        """Read no more, and leave when nothing is held."""
        self._pause(client, set(self._parts))
        with self._changed:
            held = any(part.offsets.held for part in self._parts.values())
            leaves = self._leaving and (not held or monotonic() - self._leaving_since > self._lease / 2)
            if leaves:
                self._end_all()
        if not leaves:
            self._receive(client, [message for message in (client.poll(0),) if message is not None])
            self._wait(self._must_commit, _REBALANCING)
        return leaves

    def _commit_last(self, client: Consumer) -> None:
        """Tell Kafka that nothing of what was read and not handed out has been started. From here on nothing is
        started, whatever is wanted meanwhile."""
        until = monotonic() + TIMEOUT
        while monotonic() < until:
            with self._changed:
                self._end_all()
                states = {part: _state(part, leaving=True) for part in self._parts.values()}
            try:
                if states:
                    self._commit(client, states)
                return
            except KafkaException as error:
                if error.args[0].code() != KafkaError.REBALANCE_IN_PROGRESS:
                    return
            client.poll(0)
            with self._changed:
                self._changed.wait(_REBALANCING)

    def _end_all(self) -> None:
        """Start nothing more. Held by the lock under which messages are taken."""
        for part in self._parts.values():
            part.ending = True

    def _wait(self, until: Callable[[], bool], timeout: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closing or until(), timeout)

    def _must_commit(self) -> bool:
        now = monotonic()
        with self._changed:  # callers of `commit` add to them meanwhile
            return any(commit.at <= now for commit in self._commits)

    def _may_commit(self) -> bool:
        return bool(self._read) or any(part.offsets.held for part in self._parts.values())

    def _serve_commits(self, client: Consumer, *, announcing: bool = False) -> None:
        """Commit the newest state of each partition, for all callers at once; `announcing`: also of those with messages
        that Kafka does not know as ones that may be started. If that fails, the fetch that takes them finds out."""
        with self._changed:
            commits = list(self._commits)
            self._commits.clear()
            newest = {part: state for commit in commits for part, state in commit.states.items() if not part.lost}
            if announcing:
                read = [part for part in self._parts.values() if part.position > part.offsets.announced_to]
                newest.update((part, _state(part)) for part in read if not part.ending)
        try:
            if newest:
                self._commit(client, newest)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.REBALANCE_IN_PROGRESS:
                with self._changed:
                    self._commits.extendleft(reversed([each for each in commits if monotonic() < each.deadline]))
                    self._changed.wait(_REBALANCING)
                commits = [each for each in commits if monotonic() >= each.deadline]
            self._answer(commits, self._fenced() if code in _FENCED else unavailable(error))
        else:
            self._answer(commits, None)

    def _commit(self, client: Consumer, states: Mapping[Part, _State]) -> None:
        places = [TopicPartition(self.stream, part.number, state.offset, state.text) for part, state in states.items()]
        asked_at = monotonic()
        for place in client.commit(offsets=places, asynchronous=False) or ():
            if place.error is not None:
                raise KafkaException(place.error)
        for part, state in states.items():
            part.committed = state.offset
            part.offsets.announced_to = state.announced_to
        self._confirmed_at = asked_at

    def _answer(self, commits: Iterable[_Commit], error: StreamUnavailable | None) -> None:
        with suppress(RuntimeError):  # the loop has ended
            for commit in commits:
                self._loop.call_soon_threadsafe(_settle, commit.ended, error)

    def _fenced(self) -> Fenced:
        return Fenced(f"this consumer has left the group of {self.stream}")

    def _silent(self) -> bool:
        return monotonic() - self._heard > self._lease

    def _room(self) -> int:
        return max(0, self._want - len(self._read))

    def _receive(self, client: Consumer, messages: Sequence[Message]) -> None:
        found: list[tuple[Part, int, bytes]] = []
        sought: set[int] = set()
        for message in messages:
            error = message.error()
            if error is not None:
                self._fail(unavailable(KafkaException(error)))
                continue
            number, offset = message.partition(), message.offset()
            part = self._parts.get(number) if number is not None else None
            if part is None or number is None or offset is None or number in sought:
                continue
            if offset > part.position and part.gap != (part.position, offset):
                # An offset that does not exist counts as done: read it a second time before that is believed.
                part.gap = (part.position, offset)
                client.seek(TopicPartition(self.stream, number, part.position))
                sought.add(number)
                continue
            if offset < part.position:
                part = self._begin_again(part, offset)
            part.position = offset + 1
            found.append((part, offset, message.value() or b""))
        if found:
            self.failure = None
            self._suspicious = False
            self._serve_commits(client, announcing=True)  # before a fetch could take them, and had to wait for another
            self._read.extend(found)
            self._arrived()

    def _begin_again(self, part: Part, offset: int) -> Part:
        """The log was cut, or created anew: offsets that were known may name other messages now."""
        part.lost = True
        doubtful_to = max(part.offsets.started_to, part.position)
        self._parts[part.number] = again = Part(self, part.number, PartitionOffsets(offset, doubtful_to))
        return again

    def _pause(self, client: Consumer, wished: set[int]) -> None:
        for change, numbers in ((client.pause, wished - self._paused), (client.resume, self._paused - wished)):
            places = [TopicPartition(self.stream, number) for number in numbers if number in self._parts]
            if places:
                change(places)
        self._paused = wished

    def _probe(self, client: Consumer) -> None:
        try:
            found = client.list_topics(self.stream, timeout=TIMEOUT / 5).topics[self.stream]
            if found.error is not None:
                raise KafkaException(found.error)
            self._suspicious = False
            self.failure = None
        except KafkaException as error:
            self._fail(unavailable(error))

    def _fail(self, failure: StreamUnavailable) -> None:
        self.failure = failure
        self._suspicious = True
        self._arrived()

    def _suspect(self, error: KafkaError) -> None:
        if error.code() in _SUSPICIOUS:
            self._suspicious = True

    def _leave(self) -> None:
        with self._changed:
            client, self._client = self._client, None
            left = list(self._commits)
            self._commits.clear()
            self._forget(self._parts)
            self._read.clear()
            self._returned.clear()
            self._taken.clear()
            self._held.clear()
        self._answer(left, self._fenced())
        self._paused = set()
        self._is_member = False
        if client is not None:
            with suppress(Exception):
                client.close()
        self._broken = None

    def _forget(self, numbers: Iterable[int]) -> None:
        for number in list(numbers):
            part = self._parts.pop(number, None)
            if part is not None:
                part.lost = True

    def _called_back(self, change: _Change) -> _Change:
        """Kafka's client does not pass the error of a callback on as an exception that could be caught: it is kept, and
        raised when the call that led to the callback has ended."""

        def call(client: Consumer, places: list[TopicPartition]) -> None:
            try:
                change(client, places)
            except Exception as error:
                self._broken = error

        return call

    def _raise_if_broken(self) -> None:
        error, self._broken = self._broken, None
        if error is not None:
            raise error

    def _on_assign(self, client: Consumer, places: list[TopicPartition]) -> None:
        starts = []
        for place in client.committed(places, timeout=TIMEOUT):
            if place.error is not None:
                raise KafkaException(place.error)
            offsets = PartitionOffsets.committed(place.offset, place.metadata) if place.offset >= 0 else None
            if offsets is None:
                # No commit, or one of another program: what is there may have been started.
                low, end = client.get_watermark_offsets(place, timeout=TIMEOUT)
                offsets = PartitionOffsets(place.offset if place.offset >= 0 else low, end)
            self._parts[place.partition] = Part(self, place.partition, offsets)
            starts.append(TopicPartition(self.stream, place.partition, offsets.offset))
        client.incremental_assign(starts)
        client.resume(starts)
        self._paused.difference_update(place.partition for place in starts)
        self._is_member = True  # also without partitions, when there are more members
        self.failure = None

    def _on_revoke(self, client: Consumer, places: list[TopicPartition]) -> None:
        parts = [part for place in places if (part := self._parts.get(place.partition)) is not None]
        with self._changed:
            for part in parts:
                part.ending = True
        until = monotonic() + self._lease
        while any(part.offsets.held for part in parts) and not self._closing and not self._silent():
            if monotonic() > max(until, self._held_until):
                break  # it was forgotten, and the group waits
            self._wait(lambda: bool(self._commits) or not any(part.offsets.held for part in parts), _POLL)
            self._serve_commits(client)
        with self._changed:
            states = {part: _state(part, leaving=True) for part in parts}
        with suppress(KafkaException):
            if states:
                self._commit(client, states)
        self._forget(place.partition for place in places)
        client.incremental_unassign(places)

    def _on_lost(self, client: Consumer, places: list[TopicPartition]) -> None:
        self._is_member = False
        self._forget(place.partition for place in places)
        client.incremental_unassign(places)


def _state(part: Part, *, leaving: bool = False) -> _State:
    """`leaving`: what was read and not started will not be."""
    offsets, read_to = part.offsets, 0 if leaving else part.position
    return _State(offsets.offset, offsets.text(read_to), max(offsets.started_to, read_to))


def _is_over(place: Place) -> bool:
    """Whether this consumer need not hand out a message again."""
    return place.part.lost or place.part.offsets.is_done(place.offset)


def _settle(ended: "asyncio.Future[None]", error: StreamUnavailable | None) -> None:
    if ended.done():
        return
    if error is None:
        ended.set_result(None)
    else:
        ended.set_exception(error)


def unavailable(error: Exception) -> StreamUnavailable:
    detail = error.args[0] if error.args else error
    said = detail.str() if isinstance(detail, KafkaError) else reason_of(error)
    return StreamUnavailable(f"Kafka: {said}", remedy="check that the brokers run and can be reached")
