"""What the owner of a Kafka partition may forget: nothing. All orders of few events, and random orders of many."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.streams.kafka_offsets import LONGEST_TEXT, WINDOW, PartitionOffsets


class Highest(PartitionOffsets):
    """A mutant: commits past everything that is done, also past what is not."""

    def finish(self, offsets: Iterable[int]) -> None:
        finished = list(offsets)
        super().finish(finished)
        self.offset = max(self.offset, *(offset + 1 for offset in finished))
        self._done = {done for done in self._done if done >= self.offset}


def owned(owner: type[PartitionOffsets], offset: int, text: str) -> PartitionOffsets:
    offsets = owner.committed(offset, text)
    assert offsets is not None
    return offsets


@dataclass
class World:
    """A partition whose messages exist at the offsets `log`, its committed state, and what a worker has seen."""

    log: tuple[int, ...]
    owner: type[PartitionOffsets] = PartitionOffsets
    commits_first: bool = True
    told_to: int | None = None
    """A mutant: below which offset Kafka is taken to know all that may have been started."""
    stored: tuple[int, str] = (0, "1.0.")
    started: frozenset[int] = frozenset()
    done: frozenset[int] = frozenset()
    trace: tuple[str, ...] = ()
    offsets: PartitionOffsets = field(init=False)

    def __post_init__(self) -> None:
        self._own()

    def _own(self) -> None:
        self.offsets = owned(self.owner, *self.stored)

    def _commit(self, read_to: int = 0) -> None:
        self.stored = (self.offsets.offset, self.offsets.text(read_to))
        self.offsets.announced_to = max(self.offsets.started_to, read_to)
        assert len(self.stored[1]) <= LONGEST_TEXT

    def read_ahead(self) -> None:
        """A commit that is made anyway tells of all that was read."""
        self._commit(self.log[-1] + 1)

    def leave(self) -> None:
        """The owner stops, and takes back what it has not started."""
        self._commit()
        self.hand_over()

    def take(self) -> None:
        """The worker gets the next message."""
        offset = next(offset for offset in self.log if offset >= self.offsets.next)
        assert self.offsets.has_room(offset)
        redelivered = self.offsets.start(offset)
        told_to = self.offsets.announced_to if self.told_to is None else self.told_to
        if self.commits_first and self.offsets.started_to > told_to:
            self._commit()
        if redelivered is None:
            assert offset in self.done, f"{offset} is lost: {self.trace}"
            return
        assert redelivered or offset not in self.started, f"{offset} starts twice: {self.trace}"
        self.started |= {offset}

    def crash_before_take(self) -> None:
        """The owner dies after the commit, before the worker gets the message."""
        offset = next(offset for offset in self.log if offset >= self.offsets.next)
        self.offsets.start(offset)
        self._commit()
        self._own()

    def finish(self, offset: int, *, committed: bool) -> None:
        self.offsets.finish([offset])
        self.done |= {offset}
        if committed:
            self._commit()

    def hand_over(self) -> None:
        self._own()
        assert all(offset in self.done for offset in self.log if offset < self.offsets.offset), f"lost: {self.trace}"

    def steps(self) -> Iterable[tuple[str, Callable[["World"], None]]]:
        if any(offset >= self.offsets.next for offset in self.log):
            yield "take", World.take
            yield "crash before take", World.crash_before_take
            yield "read ahead", World.read_ahead
            yield "leave", World.leave
        for offset in self.started:
            if self.offsets.offset <= offset < self.offsets.next:
                yield f"finish {offset}", lambda world, offset=offset: world.finish(offset, committed=True)
                yield f"finish {offset}, crash", lambda world, offset=offset: world.finish(offset, committed=False)
        yield "hand over", World.hand_over

    def copy(self) -> "World":
        settings = self.owner, self.commits_first, self.told_to
        made = World(self.log, *settings, self.stored, self.started, self.done, self.trace)
        made.offsets = self.owner(self.offsets.offset, self.offsets._doubtful_to, self.offsets._done)
        made.offsets.started_to, made.offsets.next = self.offsets.started_to, self.offsets.next
        made.offsets.held, made.offsets.announced_to = self.offsets.held, self.offsets.announced_to
        return made

    def key(self) -> tuple[object, ...]:
        now = self.offsets
        known = (now.offset, now.next, now.started_to, now.announced_to, now._doubtful_to, frozenset(now._done))
        return (self.stored, self.started, self.done, *known)


def explore(world: World) -> int:
    """Do everything that can happen, in every order; the number of states."""
    seen, left = {world.key()}, [world]
    while left:
        before = left.pop()
        for name, step in before.steps():
            after = before.copy()
            after.trace += (name,)
            step(after)
            if after.key() not in seen:
                seen.add(after.key())
                left.append(after)
    return len(seen)


@pytest.mark.parametrize("log", [(0, 1, 2, 3), (2, 3, 7)], ids=["contiguous", "with gaps"])
def test_no_message_is_lost_or_started_twice_as_new(log: tuple[int, ...]) -> None:
    assert explore(World(log)) > 200


def test_committing_after_the_start_is_noticed() -> None:
    with pytest.raises(AssertionError, match="starts twice"):
        explore(World((0, 1, 2), commits_first=False))


def test_taking_more_for_known_than_was_committed_is_noticed() -> None:
    with pytest.raises(AssertionError, match="starts twice"):
        explore(World((0, 1, 2), told_to=2))


def test_what_an_owner_read_and_did_not_start_is_no_redelivery_after_it_left() -> None:
    world = World((0, 1, 2))
    world.take()
    world.read_ahead()
    world.finish(0, committed=False)
    world.leave()
    assert world.offsets.start(1) is False


def test_committing_the_highest_offset_is_noticed() -> None:
    with pytest.raises(AssertionError, match="lost"):
        explore(World((0, 1, 2), owner=Highest))


@given(st.data())
def test_the_next_owner_knows_what_the_last_one_committed(data: st.DataObject) -> None:
    log = sorted(data.draw(st.sets(st.integers(0, 2 * WINDOW), min_size=1, max_size=40)))
    offsets = PartitionOffsets(0, 0)
    started: list[int] = []
    for offset in log:
        if not offsets.has_room(offset):
            break
        assert offsets.start(offset) is False
        started.append(offset)
    done = data.draw(st.sets(st.sampled_from(started)))
    for offset in data.draw(st.permutations(sorted(done))):
        offsets.finish([offset])
        offsets.finish([offset])
    assert offsets.held == len(started) - len(done)
    assert len(offsets.text()) <= LONGEST_TEXT

    heir = owned(PartitionOffsets, offsets.offset, offsets.text())
    heard = {offset: heir.start(offset) for offset in log if offset >= offsets.offset and heir.has_room(offset)}
    assert {offset for offset in started if offset < offsets.offset} <= done
    for offset, redelivered in heard.items():
        assert redelivered is (None if offset in done else offset in started)


def test_one_that_lasts_stops_the_partition_at_the_window() -> None:
    offsets = PartitionOffsets(10, 10)
    for offset in range(10, 10 + WINDOW):
        assert offsets.has_room(offset)
        offsets.start(offset)
    assert not offsets.has_room(10 + WINDOW)
    offsets.finish(range(11, 10 + WINDOW))
    assert (offsets.offset, offsets.done_ahead, offsets.held) == (10, WINDOW - 1, 1)
    assert len(offsets.text()) <= LONGEST_TEXT
    assert not offsets.has_room(10 + WINDOW)
    offsets.finish([10])
    assert (offsets.offset, offsets.done_ahead, offsets.held) == (10 + WINDOW, 0, 0)
    assert offsets.has_room(10 + WINDOW)


def test_a_large_hole_in_the_log_costs_nothing() -> None:
    offsets = PartitionOffsets(0, 0)
    offsets.start(0)
    assert not offsets.has_room(10**12)
    offsets.finish([0])
    assert offsets.has_room(10**12)
    assert offsets.start(10**12) is False
    assert offsets.offset == 10**12


@pytest.mark.parametrize(
    "text", [None, "", "2.5.AA==", "1", "1.", "1.x.", "1.-1.", "1.٣.", "1.5.A", "1.5.*AA=", "1.5.ä"]
)
def test_the_text_of_another_program_says_nothing(text: str | None) -> None:
    assert PartitionOffsets.committed(5, text) is None


def test_what_may_have_been_started_is_redelivered() -> None:
    offsets = PartitionOffsets(5, doubtful_to=9)
    assert [offsets.start(offset) for offset in range(5, 11)] == [True, True, True, True, False, False]
