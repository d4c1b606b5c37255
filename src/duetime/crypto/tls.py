"""TLS from files: certificates, keys and CAs that may be replaced while a process runs.

A context is built from its files at the start, where an unusable file is an error, and rebuilt when they have changed:
open connections keep what they have, new ones get the new certificate. If the files do not match, because only some of
them were written or they are broken, that is logged, and the last good context stays in use. Every context is complete:
nothing of an old certificate or CA is left in a new one, including sessions to resume.
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

_CHECK_EVERY = 1.0
"""Seconds between two checks of the files."""

_Stamp = tuple[tuple[int, int, int] | None, ...]


class ReloadedContext:
    """A context that follows its files."""

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Sequence[Path], fields: str) -> None:
        """`fields` names the settings, for messages. Raises `SettingsError` when the files cannot be used."""
        self._make = make
        self._files = files
        self._fields = fields
        self._stamp = self._logged_stamp = _stamp(files)
        self._check_at = monotonic() + _CHECK_EVERY
        try:
            self._context = make()
        except (OSError, ValueError) as error:  # `ssl.SSLError` is an `OSError`
            raise SettingsError(
                f"cannot use the files of {fields}: {_reason(error)}",
                field=fields.partition(",")[0],
                remedy=f"check {', '.join(map(str, files))}",
            ) from None

    @property
    def current(self) -> ssl.SSLContext:
        """The context for a new connection."""
        now = monotonic()
        if now >= self._check_at:
            self._check_at = now + _CHECK_EVERY
            self._follow()
        return self._context

    def _follow(self) -> None:
        stamp = _stamp(self._files)
        if stamp == self._stamp:
            return
        try:
            self._context = self._make()
        except (OSError, ValueError) as error:
            if stamp != self._logged_stamp:
                text = "the files of %s have changed and cannot be used; the old ones stay in use: %s"
                log.warning(text, self._fields, _reason(error))
                self._logged_stamp = stamp
            return
        self._stamp = self._logged_stamp = stamp
        log.info("the files of %s have changed and are in use", self._fields)


class ClientTls(msgspec.Struct, frozen=True):
    """How a client verifies its server and authenticates itself: the paths of PEM files."""

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
    """A server's TLS context; None for plain HTTP."""
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
            # Optional, since browsers and submitters have no certificate; one that a client presents must be valid.
            made.verify_mode = ssl.CERT_OPTIONAL
        return made

    files = [each for each in (cert, key, client_ca) if each is not None]
    return ReloadedContext(make, files, "tls_cert, tls_key and tls_client_ca")


def warn_of_plain_http(what: str, host: str, settings: Settings) -> None:
    """Log a warning when `what` is served to a network in plain text."""
    if settings.tls_in_front == "off" and not ip_address(host.partition("%")[0]).is_loopback:
        log.warning(
            "%s is served on %s in plain HTTP: the network can read keys and payloads. Set tls_cert and tls_key, or"
            " tls_in_front=on if a proxy in front of this server terminates TLS",
            what,
            host,
        )


def _no_password(*_: Any) -> str:
    """Without this, OpenSSL would ask the terminal for the password of an encrypted key, and block."""
    raise ValueError("the key is encrypted with a password; store it without one, readable only by its owner")


def _stamp(files: Sequence[Path]) -> _Stamp:
    """Changes when a file is written or replaced, also behind links."""
    return tuple(_stamp_of(each) for each in files)


def _stamp_of(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (
            "the certificate and the key do not match"
            if error.reason == "KEY_VALUES_MISMATCH"
            else str(error.reason or error)
        )
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'}: {error.strerror}"
    return str(error)
