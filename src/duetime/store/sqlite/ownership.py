"""The file belongs to one process.

A lock on a file beside the database says so; the lock ends with the process, however that one ends. POSIX locks do not
count inside one process, nor pass to a forked child, so a list of what this process has open stands beside them. The
lock file is never opened by a process that holds it: closing any handle to it would give up the lock.
"""

import errno
import fcntl
import os
from pathlib import Path
from threading import Lock

from duetime.errors import StoreError, StoreLocked, StoreUnavailable

_guard = Lock()
_open_here: set[Path] = set()
_REMEDY = "stop it, or use PostgreSQL (DUETIME_DATABASE_URL)"
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def owner_of(path: Path) -> str | None:
    """The process that holds the file, without taking it; None when nobody does."""
    resolved = path.resolve()
    with _guard:
        if resolved in _open_here:
            return str(os.getpid())
        try:
            handle = os.open(_lock_file(resolved), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.lockf(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.read(handle, 20).decode("ascii", "replace").strip() or "another one"
        finally:
            os.close(handle)
    return None


def _lock_file(resolved: Path) -> Path:
    return resolved.with_name(f"{resolved.name}.lock")


class Ownership:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._resolved: Path | None = None
        self._handle: int | None = None

    def take(self) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            resolved = self._path.resolve()
            with _guard:
                if resolved in _open_here:
                    raise StoreLocked(
                        f"the file {self._path} is open in this process already", remedy="share one store per file"
                    )
                self._handle = self._lock(_lock_file(resolved))
                self._resolved = resolved
                _open_here.add(resolved)
            # Made here, and not by SQLite, so that nobody else may read what jobs carry.
            os.close(os.open(resolved, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            self.release()
            if error.errno in _NO_ROOM:
                raise StoreUnavailable(
                    f"the file {self._path} cannot be used now: {error.strerror}", remedy="make room on the disk"
                ) from error
            raise StoreError(f"the file {self._path} cannot be used: {error.strerror}") from error

    def release(self) -> None:
        with _guard:
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None
            if self._resolved is not None:
                _open_here.discard(self._resolved)
                self._resolved = None

    def _lock(self, path: Path) -> int:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()}\n".encode())
        except BlockingIOError:
            owner = os.read(handle, 20).decode("ascii", "replace").strip()
            os.close(handle)
            raise StoreLocked(
                f"the file {self._path} belongs to process {owner or 'another one'}", remedy=_REMEDY
            ) from None
        except BaseException:
            os.close(handle)
            raise
        return handle
