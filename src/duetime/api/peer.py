"""The client of a request: its address, and whether the browser reaches this server over TLS.

Both come from the connection, unless it comes from a trusted proxy (`trusted_proxies`). Only then are `X-Forwarded-For`
and `X-Forwarded-Proto` used: any other client can put anything in them.
"""

from collections.abc import Mapping
from typing import cast
from urllib.parse import urlsplit

from starlette.types import Scope

from duetime.model.network import Address, address_of, is_inside
from duetime.settings import Settings


class Front:
    """The proxies and the public address of this server, from the settings."""

    def __init__(self, settings: Settings) -> None:
        self.proxies = settings.trusted_proxies
        public = urlsplit(settings.public_url or "")
        self.secure_host = _host(public.netloc.rpartition("@")[2].encode()) if public.scheme == "https" else b""
        """The host of `public_url`, if it begins with https."""


class Peer:
    """The client of one request. Its address is computed when it is needed: most keys work from everywhere."""

    __slots__ = ("_front", "_scope")

    def __init__(self, scope: Scope, front: Front) -> None:
        self._scope = scope
        self._front = front

    @property
    def address(self) -> Address | None:
        """The client's address: the last one that trusted proxies have added and that is not a proxy's."""
        found = self._connected
        if not self._is_proxied(found):
            return found
        for part in reversed(self._forwarded(b"x-forwarded-for")):
            found = address_of(part)
            if not self._is_proxied(found):
                break
        return found

    def is_secure(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether the browser uses TLS. A client that sends a wrong host affects only its own cookie."""
        if self._scope.get("scheme") == "https":
            return True
        if self._is_proxied(self._connected) and self._forwarded(b"x-forwarded-proto")[:1] == ["https"]:
            return True
        return bool(self._front.secure_host) and _host(headers.get(b"host", b"")) == self._front.secure_host

    @property
    def _connected(self) -> Address | None:
        client = self._scope.get("client")
        return None if client is None else address_of(client[0])

    def _is_proxied(self, address: Address | None) -> bool:
        return bool(self._front.proxies) and is_inside(address, self._front.proxies)

    def _forwarded(self, name: bytes) -> list[str]:
        """The parts of a header, from all its lines: a proxy can add a line instead of extending one."""
        given = cast("list[tuple[bytes, bytes]]", self._scope["headers"])
        lines = b",".join(value for key, value in given if key == name)
        return [part.strip().lower() for part in lines.decode("latin-1").split(",") if part.strip()]


def _host(given: bytes) -> bytes:
    return given.lower().removesuffix(b":443")
