"""The file belongs to one process at a time.

The owner holds a lock on a file beside the database; the lock ends with the process. POSIX locks do not exclude callers
within one process, and a forked child does not inherit them, so a list of open files complements them. A process that
holds the lock never opens the lock file again: closing any handle to it would release the lock.

The lock file names its owner. A server keeps the file for as long as it runs, and other processes reach it over HTTP.
The lock file also names the server's data folder, which has its address: the file itself may be elsewhere. Any other
owner needs the file only for a moment, so other processes wait. While they wait, they share a lock on a second file.
The owner sees that lock, and releases the file.
"""

import errno
import fcntl
import logging
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from time import sleep
from typing import NamedTuple

from duetime.clock import monotonic
from duetime.errors import StoreError, StoreLocked, StoreUnavailable
from duetime.process.forks import reset_in_children

log = logging.getLogger("duetime.sqlite")

_REMEDY = "stop it, or use PostgreSQL (DUETIME_DATABASE_URL)"
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_SERVES = "serves"
_READ = 8_192
_LOOK_EVERY = 0.02
_TELL_AFTER = 1.0
"""Seconds after which a waiting process logs the owner."""


class _Here:
    """The files that this process has open. A forked child has none: locks stay with the parent."""

    def __init__(self) -> None:
        self.begin_anew()
        reset_in_children(self)

    def begin_anew(self) -> object:
        self.guard = Lock()
        self.open: set[Path] = set()
        return None


_here = _Here()


class Owner(NamedTuple):
    process: str
    serves: bool
    """Whether it is a server, which keeps the file for as long as it runs."""
    data_dir: Path | None = None
    """The data folder of the server."""


def owner_of(path: Path) -> Owner | None:
    """The process that owns the file, without locking it; None when there is no owner."""
    resolved = path.resolve()
    with _here.guard:
        if resolved in _here.open:
            return Owner(str(os.getpid()), serves=False)
        try:
            handle = os.open(_lock_file(resolved), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.lockf(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read_owner(handle)
        finally:
            os.close(handle)
    return None


def is_wanted(path: Path) -> bool:
    """Whether another process waits for the file."""
    try:
        handle = os.open(_waiting_file(path.resolve()), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _lock_file(resolved: Path) -> Path:
    return resolved.with_name(f"{resolved.name}.lock")


def _waiting_file(resolved: Path) -> Path:
    return resolved.with_name(f"{resolved.name}.waiting")


def _read_owner(handle: int) -> Owner:
    process, role, folder, *_ = [*os.fsdecode(os.read(handle, _READ)).split("\n"), "", "", ""]
    return Owner(process.strip() or "another one", role == _SERVES, Path(folder) if folder else None)


class Ownership:
    def __init__(self, path: Path, *, serves: Path | None = None, lock_timeout: float = 0.0) -> None:
        """`serves`: the data folder of a server."""
        self._path = path
        self._serves = serves
        self._lock_timeout = lock_timeout
        self._resolved: Path | None = None
        self._handle: int | None = None

    def take(self) -> None:
        """Lock the file. Waits up to `lock_timeout` seconds, unless a server owns it, and then raises `StoreLocked`."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            resolved = self._path.resolve()
            self._take_in_turn(resolved)
            # Created here and not by SQLite, so that other users cannot read it.
            os.close(os.open(resolved, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            self.release()
            if error.errno in _NO_ROOM:
                raise StoreUnavailable(
                    f"the file {self._path} cannot be used now: {error.strerror}", remedy="free disk space"
                ) from error
            raise StoreError(f"the file {self._path} cannot be used: {error.strerror}") from error

    def release(self) -> None:
        with _here.guard:
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None
            if self._resolved is not None:
                _here.open.discard(self._resolved)
                self._resolved = None

    def _take_in_turn(self, resolved: Path) -> None:
        try:
            self._try(resolved)
        except StoreLocked as error:
            if not self._lock_timeout or error.owner_serves:
                raise
        else:
            return
        began, was_reported = monotonic(), False
        with _waiting(resolved):
            while True:
                sleep(random.uniform(_LOOK_EVERY / 2, _LOOK_EVERY))
                try:
                    self._try(resolved)
                except StoreLocked as error:
                    waited = monotonic() - began
                    if error.owner_serves or waited > self._lock_timeout:
                        raise
                    if waited > _TELL_AFTER and not was_reported:
                        log.warning("waiting, for up to %.0f s: %s", self._lock_timeout, error.message)
                        was_reported = True
                else:
                    return

    def _try(self, resolved: Path) -> None:
        with _here.guard:
            if resolved in _here.open:
                raise StoreLocked(
                    f"another App of this process has opened the file {self._path}",
                    remedy="share one App; a module that is imported under two names has two of them",
                )
            self._handle = self._lock(_lock_file(resolved))
            self._resolved = resolved
            _here.open.add(resolved)

    def _lock(self, path: Path) -> int:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            role = "" if self._serves is None else f"{_SERVES}\n{self._serves.resolve()}\n"
            os.write(handle, os.fsencode(f"{os.getpid()}\n{role}"))
        except BlockingIOError:
            owner = _read_owner(handle)
            os.close(handle)
            locked = StoreLocked(f"the file {self._path} belongs to process {owner.process}", remedy=_REMEDY)
            locked.owner_serves = owner.serves
            raise locked from None
        except BaseException:
            os.close(handle)
            raise
        return handle


@contextmanager
def _waiting(resolved: Path) -> Iterator[None]:
    """Show the owner that this process waits."""
    handle = os.open(_waiting_file(resolved), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # An owner checks by locking this file for an instant; it checks again soon.
        for _ in range(5):
            try:
                fcntl.lockf(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                sleep(0.001)
        yield
    finally:
        os.close(handle)
