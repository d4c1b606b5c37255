"""Messages between a worker and its child: pickled, with a length prefix. Both sides are the same program."""

import itertools
import pickle
import socket
import threading
from collections import deque
from typing import Any

NO_QUESTION = 0
"""The number of a message that answers no question."""
_LENGTH = 4
_AT_ONCE = 65_536


def pack(message: object) -> bytes:
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return len(body).to_bytes(_LENGTH, "big") + body


class Unpacker:
    """Assembles messages from the bytes that arrive."""

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
    """The child's end, for the thread that waits for orders and for other threads that wait for answers.

    Every message has a number: the question that it answers, or none for an order. Each waiting thread reads in turn
    and leaves the others' messages to them: a dedicated reader thread would cost each order a thread switch.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._unpacker = Unpacker()
        self._sending = threading.Lock()
        self._numbers = itertools.count(NO_QUESTION + 1)
        self._awaited: set[int] = set()
        self._received: dict[int, Any] = {}
        self._orders: deque[Any] = deque()
        """Several may arrive before the first is asked for."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._is_read = False

    def send(self, message: object) -> None:
        """Callable from any thread: a function may start threads, and they may log."""
        packed = pack(message)
        with self._sending:
            self._socket.sendall(packed)

    def order(self) -> Any:
        """The next order. Raises `EOFError` when the other side has closed."""
        with self._lock:
            while not self._orders:
                self._wait()
            return self._orders.popleft()

    def ask(self, kind: str, order: int, content: object) -> Any:
        """The answer to a question, from any thread."""
        number = next(self._numbers)
        self._awaited.add(number)
        try:
            self.send((kind, order, (number, content)))
            return self._receive(number)
        finally:
            # A signal handler may have raised in this thread. Then no thread waits for the answer.
            self._awaited.discard(number)
            self._received.pop(number, None)

    def _receive(self, number: int) -> Any:
        with self._lock:
            while number not in self._received:
                self._wait()
            return self._received.pop(number)

    def _wait(self) -> None:
        if self._is_read:
            self._changed.wait()
        else:
            self._read()

    def _read(self) -> None:
        """Read what is available, or wait for it. Other threads may check for their messages meanwhile."""
        self._is_read = True
        self._lock.release()
        try:
            data = self._socket.recv(_AT_ONCE)
        finally:
            self._lock.acquire()
            self._is_read = False
            self._changed.notify_all()
        if not data:
            raise EOFError
        for number, content in self._unpacker.feed(data):
            if number == NO_QUESTION:
                self._orders.append(content)
            elif number in self._awaited:
                self._received[number] = content
