"""Messages between a worker and a child of it: pickled, each behind its length. Both sides are the same program."""

import pickle
import socket
import threading
from typing import Any

_LENGTH = 4
_AT_ONCE = 65_536


def pack(message: object) -> bytes:
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return len(body).to_bytes(_LENGTH, "big") + body


class Unpacker:
    """Puts messages together from what arrives of them."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """The messages that are complete now."""
        buffer = self._buffer
        buffer += data
        messages, start = [], 0
        while len(buffer) - start >= _LENGTH:
            end = start + _LENGTH + int.from_bytes(buffer[start : start + _LENGTH], "big")
            if len(buffer) < end:
                break
            messages.append(pickle.loads(memoryview(buffer)[start + _LENGTH : end]))
            start = end
        del buffer[:start]
        return messages


class Pipe:
    """The child's end."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._unpacker = Unpacker()
        self._received: list[Any] = []
        self._lock = threading.Lock()

    def send(self, message: object) -> None:
        """From any thread: a function may have some of its own, and they may log."""
        packed = pack(message)
        with self._lock:
            self._socket.sendall(packed)

    def receive(self) -> Any:
        """The next message. Raises `EOFError` when the other side has closed."""
        while not self._received:
            data = self._socket.recv(_AT_ONCE)
            if not data:
                raise EOFError
            self._received += self._unpacker.feed(data)
        return self._received.pop(0)
