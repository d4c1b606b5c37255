"""The logins of this user, one for each server: a file that only its owner can read.

A login is an ID token, and a refresh token that gets the next one. Processes that run at once renew under a lock:
providers accept a refresh token once, and take a second use for theft. The token is renewed a minute before it expires,
by the time since it was received: the clocks of this machine and of the provider may differ.
"""

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from duetime.clock import SystemClock
from duetime.errors import AccessDenied, InvalidInput

if sys.platform != "win32":
    import fcntl

_FILE = "logins.json"
_EARLY = 60.0
"""Seconds before its end that a token is renewed."""
_clock = SystemClock()


class Login(msgspec.Struct, frozen=True):
    provider: str
    issuer: str
    client_id: str
    scopes: tuple[str, ...]
    id_token: str
    refresh_token: str | None
    received_at: float
    lasts: float
    """Seconds from `iat` to `exp`."""

    @property
    def expires_at(self) -> float:
        """By the clock of this machine."""
        return self.received_at + self.lasts

    @property
    def is_fresh(self) -> bool:
        """Whether it needs no renewal yet. A short one is renewed in its last fifth."""
        now = _clock.now().timestamp()
        return self.received_at - _EARLY <= now < self.expires_at - min(_EARLY, self.lasts / 5)

    @property
    def is_valid(self) -> bool:
        return _clock.now().timestamp() < self.expires_at


def config_folder() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or ""
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "duetime"


class StoredLogins:
    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or config_folder()
        self.path = self._folder / _FILE

    def login(self, url: str) -> Login | None:
        """The login at this server. Raises `AccessDenied` if others can read the file."""
        return self._read().get(_server(url))

    @contextlib.contextmanager
    def changing(self) -> Iterator["Changes"]:
        """Change logins, as the only process at a time."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._folder / f"{_FILE}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            if sys.platform != "win32":
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield Changes(self)
        finally:
            os.close(lock)

    def _read(self) -> dict[str, Login]:
        try:
            opened = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return {}
        with os.fdopen(opened, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if sys.platform != "win32" and stat.S_IMODE(mode) & 0o077:
                raise AccessDenied(
                    f"other users can read the logins in {self.path}",
                    remedy=f"chmod 600 {self.path}, and log in again: duetime login",
                )
            content = file.read()
        try:
            return msgspec.json.decode(content, type=dict[str, Login])
        except (msgspec.DecodeError, msgspec.ValidationError):
            raise InvalidInput(
                f"{self.path} cannot be read", remedy="remove it, and log in again: duetime login"
            ) from None

    def _write(self, logins: dict[str, Login]) -> None:
        beside = self._folder / f"{_FILE}.{os.getpid()}"
        beside.unlink(missing_ok=True)
        opened = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(opened, "wb") as file:
            file.write(msgspec.json.encode(logins))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.path)


class Changes:
    """The logins, while this process alone changes them."""

    def __init__(self, stored: StoredLogins) -> None:
        self._stored = stored

    def login(self, url: str) -> Login | None:
        return self._stored.login(url)

    def put(self, url: str, login: Login) -> None:
        self._stored._write({**self._stored._read(), _server(url): login})

    def remove(self, url: str) -> None:
        logins = self._stored._read()
        if logins.pop(_server(url), None) is not None:
            self._stored._write(logins)


def _server(url: str) -> str:
    return url.rstrip("/")
