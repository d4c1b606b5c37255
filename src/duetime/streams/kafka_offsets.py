"""Which messages of a partition are done, as the partition's owner counts them. No I/O.

Kafka keeps one offset per partition, and a text next to it. Messages end out of order, so the offset is that of the
first message that is not done, and the text describes those after it:

    started_to    messages below it may have been started, by this owner or by one before it
    done          which of them are done

Both are committed before a message is handed out. The next owner of the partition therefore knows what may have been
started: it delivers those messages as redelivered, and skips the ones that are done.

A commit takes milliseconds. So the owner says of all messages that it has read that they may have been started, and can
hand them out at once. An owner that leaves takes back what it did not start.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable

WINDOW = 4096
"""How many offsets the owner may be ahead of the first message that is not done: the text stays below 1 kB."""
LONGEST_TEXT = 1024
_VERSION = "1"


class PartitionOffsets:
    """The offsets of one partition, for as long as one consumer owns it."""

    __slots__ = ("_done", "_doubtful_to", "announced_to", "held", "next", "offset", "started_to")

    def __init__(self, offset: int, doubtful_to: int, done: Iterable[int] = ()) -> None:
        """`offset`: the first that is not done; `doubtful_to`: those below it may have been started before."""
        self.offset = offset
        self.started_to = max(offset, doubtful_to)
        self.announced_to = offset
        """Kafka knows that messages below it may have been started."""
        self.next = offset
        """What is to be handed out next; those below it were."""
        self.held = 0
        """How many are handed out and not done."""
        self._doubtful_to = doubtful_to
        self._done = set(done)

    @classmethod
    def committed(cls, offset: int, text: str | None) -> "PartitionOffsets | None":
        """As the previous owner committed them; None if another program has set the offset."""
        version, _, rest = (text or "").partition(".")
        ahead, _, bits = rest.partition(".")
        if version != _VERSION or not ahead.isascii() or not ahead.isdigit():
            return None
        try:
            decoded = b64decode(bits, validate=True)[: WINDOW // 8]
        except ValueError:
            return None
        done = (offset + place * 8 + bit for place, byte in enumerate(decoded) for bit in range(8) if byte >> bit & 1)
        found = cls(offset, offset + int(ahead), done)
        found.announced_to = found.started_to
        return found

    def has_room(self, offset: int) -> bool:
        return offset < self.offset + WINDOW or self.offset >= self.next

    def start(self, offset: int) -> bool | None:
        """Hand out the message at this offset, at or above `next`: true if it may have been started before, None if it
        is done already. The offsets that are left out do not exist."""
        if offset > self.next:
            self._skip_to(offset)
        self.next = offset + 1
        if offset < self.offset or offset in self._done:
            return None
        self.started_to = max(self.started_to, self.next)
        self.held += 1
        return offset < self._doubtful_to

    def finish(self, offsets: Iterable[int]) -> None:
        """The messages at these offsets, which were handed out, are done. Repeating it does no harm."""
        fresh = {offset for offset in offsets if offset >= self.offset} - self._done
        self._done |= fresh
        self.held -= len(fresh)
        self._advance()

    def is_done(self, offset: int) -> bool:
        """Whether the message at this offset, which was handed out, is done."""
        return offset < self.offset or offset in self._done

    def text(self, read_to: int = 0) -> str:
        """What is committed next to `offset`; `read_to`: those below it may be started before the next commit."""
        bits = bytearray((max(self._done) - self.offset) // 8 + 1) if self._done else bytearray()
        for offset in self._done:
            place, bit = divmod(offset - self.offset, 8)
            bits[place] |= 1 << bit
        return f"{_VERSION}.{max(self.started_to, read_to) - self.offset}.{b64encode(bits).decode()}"

    @property
    def done_ahead(self) -> int:
        """How many are done beyond `offset`."""
        return len(self._done)

    def _skip_to(self, offset: int) -> None:
        if self.offset >= self.next:
            self.offset = max(self.offset, offset)
            self._done = {done for done in self._done if done >= self.offset}
        else:
            self._done.update(range(max(self.next, self.offset), offset))
        self._advance()

    def _advance(self) -> None:
        while self.offset in self._done:
            self._done.remove(self.offset)
            self.offset += 1
        self.started_to = max(self.started_to, self.offset)
