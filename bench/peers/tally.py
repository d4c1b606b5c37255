"""Starts, counted without slowing down those who start: each process notes them in a file of its own, in memory that
others can read while it is written. A start is a pair of moments: when the job was sent (or meant to be), and when its
task began.

Nothing but the standard library: this is imported inside the peers' environments too.
"""

import itertools
import mmap
import os
import struct
import threading
import time
from pathlib import Path

CAPACITY = 4_000_000
_PAIR = struct.Struct("=dd")
_NOTHING = bytes(8)

_lock = threading.Lock()
_numbers = itertools.count()
_memory: mmap.mmap | None = None


def hit(sent: float) -> None:
    """A task has begun that was sent at this moment."""
    now = time.time()
    _PAIR.pack_into(_memory or _open(), next(_numbers) * _PAIR.size, sent, now)


def begin() -> None:
    """From now on is counted; where nothing says so, the first start is the beginning."""
    (Path(os.environ["TALLY"]) / "began").write_text(repr(time.time()))


def _open() -> mmap.mmap:
    global _memory
    with _lock:
        if _memory is None:
            file = Path(os.environ["TALLY"]) / f"{os.getpid()}.tally"
            with file.open("w+b") as opened:
                opened.truncate(CAPACITY * _PAIR.size)  # holes take no room
                _memory = mmap.mmap(opened.fileno(), 0)
        return _memory


def _begin_anew() -> None:
    """A fork of a process that counts has a file of its own. (To ask for its id at each start would cost more than all
    the rest.)"""
    global _lock, _numbers, _memory
    _lock, _numbers, _memory = threading.Lock(), itertools.count(), None


os.register_at_fork(after_in_child=_begin_anew)


class Tally:
    """Reads what all processes have noted in a folder. Counting is all that happens while they are measured: the cores
    are theirs. What was noted is decoded when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._noted = bytearray()
        self._read: dict[Path, int] = {}

    def count(self) -> int:
        """How many have started so far."""
        for file in self.folder.glob("*.tally"):
            with file.open("rb") as opened:
                opened.seek(self._read.get(file, 0))
                while chunk := opened.read(_PAIR.size * 4096):
                    # No moment is made of zeros only: a pair that has some is not written yet.
                    written = chunk.find(_NOTHING)
                    whole = (len(chunk) if written < 0 else written) // _PAIR.size * _PAIR.size
                    self._noted += chunk[:whole]
                    self._read[file] = self._read.get(file, 0) + whole
                    if whole < len(chunk):
                        break
        return len(self._noted) // _PAIR.size

    @property
    def starts(self) -> list[tuple[float, float]]:
        """Of each one that was counted, when it was sent and when it started."""
        return list(_PAIR.iter_unpack(self._noted))

    def forget(self) -> None:
        """What was counted so far does not count."""
        self._noted.clear()

    def rate(self) -> float:
        """Starts a second, from the first (or from where it was said to begin) to the last."""
        moments = [start for _, start in self.starts]
        said = self.folder / "began"
        began = float(said.read_text()) if said.exists() else min(moments)
        return (len(moments) - 1) / (max(moments) - began)

    def lags(self, *, skip: float = 0.0) -> list[float]:
        """How long after it was sent each one started, in seconds, in the order in which they were sent; without those
        sent in the first `skip`."""
        starts = sorted(self.starts)
        return [start - sent for sent, start in starts if sent >= starts[0][0] + skip]
