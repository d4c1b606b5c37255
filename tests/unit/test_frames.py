"""Messages between a worker and its children, as they arrive: in pieces, and several at once."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from duetime.worker.frames import NO_QUESTION, Pipe, Unpacker, pack

MESSAGES = [("progress", 0.5), ("outcome", b"x" * 200_000), None]


@pytest.mark.parametrize("size", [1, 3, 4, 5, 1000, 10**6])
def test_messages_in_pieces(size: int) -> None:
    stream = b"".join(map(pack, MESSAGES))
    unpacker = Unpacker()
    found = [
        message for start in range(0, len(stream), size) for message in unpacker.feed(stream[start : start + size])
    ]
    assert found == MESSAGES


class Worker:
    """The other end of a pipe."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._unpacker = Unpacker()

    def questions(self, count: int) -> dict[str, int]:
        """The next ones: what is asked, and their numbers."""
        found: dict[str, int] = {}
        while len(found) < count:
            found |= {asked: number for _, _, (number, asked) in self._unpacker.feed(self._end.recv(10_000))}
        return found

    def say(self, *messages: tuple[int, object]) -> None:
        """All at once."""
        self._end.sendall(b"".join(map(pack, messages)))


@pytest.fixture
def ends() -> Iterator[tuple[Worker, Pipe]]:
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    theirs.settimeout(10)
    with ours, theirs:
        yield Worker(ours), Pipe(theirs)


def test_the_end_of_a_pipe() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pipe = Pipe(theirs)
        ours.sendall(pack((NO_QUESTION, "one")) + pack((NO_QUESTION, "cut off"))[:-1])
        assert pipe.order() == "one"
        ours.close()
        with pytest.raises(EOFError):
            pipe.order()
        with pytest.raises(OSError, match="Broken pipe"):
            pipe.ask("parents", 1, "anybody there?")


def test_everybody_gets_the_answer_to_his_own_question(ends: tuple[Worker, Pipe]) -> None:
    worker, pipe = ends
    with ThreadPoolExecutor(9) as pool:
        order = pool.submit(pipe.order)
        answers = [pool.submit(pipe.ask, "parents", 1, f"question {number}") for number in range(8)]
        questions = worker.questions(8)
        worker.say(*((number, f"answer to {asked}") for asked, number in questions.items()))
        assert [answer.result(10) for answer in answers] == [f"answer to question {number}" for number in range(8)]
        assert not order.done()
        worker.say((NO_QUESTION, "an order"))
        assert order.result(10) == "an order"


def test_an_order_reaches_who_waits_for_it_while_another_reads(ends: tuple[Worker, Pipe]) -> None:
    worker, pipe = ends
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(pipe.ask, "checkpoint", 1, "question")
        number = worker.questions(1)["question"]
        order = pool.submit(pipe.order)
        worker.say((NO_QUESTION, "an order"))
        assert order.result(10) == "an order"
        worker.say((number, "answer"))
        assert answer.result(10) == "answer"


def test_several_orders_at_once(ends: tuple[Worker, Pipe]) -> None:
    worker, pipe = ends
    worker.say((NO_QUESTION, "one"), (NO_QUESTION, "two"), (NO_QUESTION, "three"))
    assert [pipe.order() for _ in range(3)] == ["one", "two", "three"]


def test_an_answer_that_nobody_waits_for_is_dropped(ends: tuple[Worker, Pipe]) -> None:
    worker, pipe = ends
    worker.say((99, "answer"), (NO_QUESTION, "an order"))
    assert pipe.order() == "an order"
    assert not pipe._received
