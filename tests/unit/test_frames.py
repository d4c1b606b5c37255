"""Messages between a worker and its children, as they arrive: in pieces, and several at once."""

import socket

import pytest

from duetime.worker.frames import Pipe, Unpacker, pack

MESSAGES = [("progress", 0.5), ("outcome", b"x" * 200_000), None]


@pytest.mark.parametrize("size", [1, 3, 4, 5, 1000, 10**6])
def test_messages_in_pieces(size: int) -> None:
    stream = b"".join(map(pack, MESSAGES))
    unpacker = Unpacker()
    found = [
        message for start in range(0, len(stream), size) for message in unpacker.feed(stream[start : start + size])
    ]
    assert found == MESSAGES


def test_the_end_of_a_pipe() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pipe = Pipe(theirs)
        ours.sendall(pack("one") + pack("two") + pack("cut off")[:-1])
        assert [pipe.receive(), pipe.receive()] == ["one", "two"]
        ours.close()
        with pytest.raises(EOFError):
            pipe.receive()
