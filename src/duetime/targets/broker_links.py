"""Connections to brokers, shared by the attempts that use them.

A connection is opened to addresses that were resolved and checked here, and is replaced after a while, because names
move. One that failed is replaced at once.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from ipaddress import ip_address

from duetime.clock import monotonic
from duetime.errors import MessageRefused
from duetime.streams.external.protocol import Publisher, Server
from duetime.targets.address_guard import AddressGuard, Lookup
from duetime.targets.url import Place

_REMEMBERED = 30.0
"""Seconds until a name is resolved again."""
_MOST = 100
_MOST_ADDRESSES = 4


class _Link:
    def __init__(self, publisher: Publisher) -> None:
        self.publisher = publisher
        self.until = monotonic() + _REMEMBERED
        self.users = 0
        self.retired = False


class BrokerLinks:
    def __init__(self) -> None:
        self._links: dict[Hashable, _Link] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def link(self, key: Hashable, make: Callable[[], Awaitable[Publisher]]) -> AsyncIterator[Publisher]:
        """The connection for this key. If its use fails, no other attempt begins to use it."""
        link = self._links.get(key)
        if link is None or link.until < monotonic():
            fresh = _Link(await make())
            self._drop(key)
            if len(self._links) >= _MOST:
                self._drop(min(self._links, key=lambda each: self._links[each].until))
            self._links[key] = link = fresh
        link.users += 1
        try:
            yield link.publisher
        except MessageRefused:
            raise
        except BaseException:
            link.retired = True
            if self._links.get(key) is link:
                del self._links[key]
            raise
        finally:
            link.users -= 1
            self._close_unused(link)

    async def close(self) -> None:
        for key in list(self._links):
            self._drop(key)
        await asyncio.gather(*self._closing)

    def _drop(self, key: Hashable) -> None:
        link = self._links.pop(key, None)
        if link is not None:
            link.retired = True
            self._close_unused(link)

    def _close_unused(self, link: _Link) -> None:
        if link.retired and not link.users:
            closing = asyncio.ensure_future(link.publisher.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


async def server_at(place: Place, guard: AddressGuard, lookup: Lookup) -> Server:
    """The addresses of a place, all of which may be called. Raises `AddressRefused` and `OSError`."""
    try:
        ip_address(place.host)
    except ValueError:
        found = await guard.resolve(place.host, place.port, lookup)
        return Server(place.host, place.port, [text for _, text in found][:_MOST_ADDRESSES])
    guard.check(place.host)
    return Server(place.host, place.port, [place.host])
