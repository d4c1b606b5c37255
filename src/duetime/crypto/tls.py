"""TLS from files: certificates, keys and CAs that may be replaced while a process runs.

A context is made of its files at the start, where a file that cannot be used is an error, and made anew when they have
changed: connections that are open keep what they have, new ones get the new certificate. Files that do not fit
together, because only half of them were written or they are broken, are told to the log, and the last good context
stays. Every context is whole: nothing of an old certificate or CA is left in a new one, sessions to resume included.
"""

import logging
import ssl
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec

from duetime.clock import monotonic
from duetime.errors import SettingsError
from duetime.settings import Settings

log = logging.getLogger("duetime")

_LOOK_EVERY = 1.0
"""Seconds between two looks at the files."""

_Stamp = tuple[tuple[int, int, int] | None, ...]


class ReloadedContext:
    """A context that follows its files."""

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Sequence[Path], fields: str) -> None:
        """`fields` names the settings, for messages. Raises `SettingsError` when the files cannot be used."""
        self._make = make
        self._files = files
        self._fields = fields
        self._stamp = self._told = _stamp(files)
        self._look_at = monotonic() + _LOOK_EVERY
        try:
            self._context = make()
        except (OSError, ValueError) as error:  # `ssl.SSLError` is an `OSError`
            raise SettingsError(
                f"the files of {fields} cannot be used: {_reason(error)}",
                field=fields.partition(",")[0],
                remedy=f"look at {', '.join(map(str, files))}",
            ) from None

    @property
    def current(self) -> ssl.SSLContext:
        """The context for a new connection."""
        now = monotonic()
        if now >= self._look_at:
            self._look_at = now + _LOOK_EVERY
            self._follow()
        return self._context

    def _follow(self) -> None:
        stamp = _stamp(self._files)
        if stamp == self._stamp:
            return
        try:
            self._context = self._make()
        except (OSError, ValueError) as error:
            if stamp != self._told:
                text = "the files of %s have changed and cannot be used, so the old ones stay in use: %s"
                log.warning(text, self._fields, _reason(error))
                self._told = stamp
            return
        self._stamp = self._told = stamp
        log.info("the files of %s have changed and are in use", self._fields)


class ClientTls(msgspec.Struct, frozen=True):
    """How a client trusts its server, and shows who it is: the paths of PEM files."""

    ca: Path | str | None = None
    """CAs that the server's certificate is verified against, instead of the system's."""
    cert: Path | str | None = None
    """The client's certificate, with its chain."""
    key: Path | str | None = None
    """The key of that certificate; None: it is in the same file."""

    @staticmethod
    def of(settings: Settings) -> "ClientTls | None":
        if settings.server_ca is None and settings.client_cert is None:
            return None
        return ClientTls(settings.server_ca, settings.client_cert, settings.client_key)

    def context(self) -> ReloadedContext:
        def make() -> ssl.SSLContext:
            made = ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
            made.minimum_version = ssl.TLSVersion.TLSv1_2
            if self.cert is not None:
                made.load_cert_chain(self.cert, self.key, _no_password)
            return made

        files = [Path(each) for each in (self.ca, self.cert, self.key) if each is not None]
        return ReloadedContext(make, files, "server_ca, client_cert and client_key")


def server_tls(settings: Settings) -> ReloadedContext | None:
    """What a server speaks TLS with; None when it speaks plain HTTP."""
    cert, key, client_ca = settings.tls_cert, settings.tls_key, settings.tls_client_ca
    if cert is None:
        return None

    def make() -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        made.set_alpn_protocols(["http/1.1"])
        made.load_cert_chain(cert, key, _no_password)
        if client_ca is not None:
            made.load_verify_locations(client_ca)
            # Optional, since browsers and submitters have none; what a client does show must be valid.
            made.verify_mode = ssl.CERT_OPTIONAL
        return made

    files = [each for each in (cert, key, client_ca) if each is not None]
    return ReloadedContext(make, files, "tls_cert, tls_key and tls_client_ca")


def warn_of_plain_http(what: str, host: str, settings: Settings) -> None:
    """Tell the log when `what` is served to a network in plain text."""
    if settings.tls_in_front == "off" and not ip_address(host.partition("%")[0]).is_loopback:
        log.warning(
            "%s is served on %s in plain HTTP: the network can read keys and payloads. Set tls_cert and tls_key, or"
            " tls_in_front=on where a proxy in front of this server ends TLS",
            what,
            host,
        )


def _no_password(*_: Any) -> str:
    """OpenSSL would ask the terminal for the password of an encrypted key, and wait."""
    raise ValueError("the key is encrypted with a password; write it without one, readable for its owner alone")


def _stamp(files: Sequence[Path]) -> _Stamp:
    """What changes when a file is written or replaced, behind links too."""
    return tuple(_stamp_of(each) for each in files)


def _stamp_of(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return "certificate and key do not fit" if error.reason == "KEY_VALUES_MISMATCH" else str(error.reason or error)
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'}: {error.strerror}"
    return str(error)
