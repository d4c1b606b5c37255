"""Where a request comes from: the address of the client, and whether a browser reaches this server over TLS.

Both are what the connection says, unless it comes from a proxy that the operator has named (`trusted_proxies`). Only
then do `X-Forwarded-For` and `X-Forwarded-Proto` count: any other client can write into them what it likes.
"""

from collections.abc import Mapping
from typing import cast
from urllib.parse import urlsplit

from starlette.types import Scope

from duetime.model.network import Address, address_of, is_inside
from duetime.settings import Settings


class Front:
    """What stands before this server, as the settings say."""

    def __init__(self, settings: Settings) -> None:
        self.proxies = settings.trusted_proxies
        public = urlsplit(settings.public_url or "")
        self.secure_host = _host(public.netloc.rpartition("@")[2].encode()) if public.scheme == "https" else b""
        """The host of `public_url`, where that begins with https."""


class Peer:
    """The other side of one request. Nothing is looked at before it is asked for: most keys work from everywhere."""

    __slots__ = ("_front", "_scope")

    def __init__(self, scope: Scope, front: Front) -> None:
        self._scope = scope
        self._front = front

    @property
    def address(self) -> Address | None:
        """The client's address: of those that trusted proxies have added, the last that is not one of theirs."""
        found = self._connected
        if not self._is_proxied(found):
            return found
        for part in reversed(self._forwarded(b"x-forwarded-for")):
            found = address_of(part)
            if not self._is_proxied(found):
                break
        return found

    def is_secure(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether TLS protects the whole way from the browser. A client that lies about its host harms its own cookie
        alone."""
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
        """The parts of a header, of all its lines: a proxy may add a line of its own instead of adding to one."""
        given = cast("list[tuple[bytes, bytes]]", self._scope["headers"])
        lines = b",".join(value for key, value in given if key == name)
        return [part.strip().lower() for part in lines.decode("latin-1").split(",") if part.strip()]


def _host(given: bytes) -> bytes:
    return given.lower().removesuffix(b":443")
