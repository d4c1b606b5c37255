"""Cursors: signed positions in lists.

A cursor is bound to its tenant, list and filter by a signature whose key all nodes share. A modified cursor, or one of
another list, filter or tenant, is refused.

The position is masked with a key stream derived from the signature: a query over the runs of all tenants can stop at a
run of another tenant, whose id and time must not be revealed.

Positions in the event stream are masked in the same way: they count the events of all tenants.
"""

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from hashlib import blake2b
from hmac import compare_digest
from typing import Any
from uuid import UUID

import msgspec

from duetime.api.problems import INVALID_CURSOR, Problem
from duetime.model.event import EventMark
from duetime.model.scope import Scope
from duetime.store.protocol.store import Store

_PLACE = 16
_MARK = 8
_TAG = 16
_encoder = msgspec.json.Encoder(order="sorted")


class Cursors:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._secret: bytes | None = None

    async def read(self, given: str, listed: bytes) -> UUID:
        """The position of a cursor of the list `listed` (see `name_list`)."""
        place = await self.read_bytes(given, listed)
        if len(place) != _PLACE:
            raise _refused()
        return UUID(bytes=place)

    async def write(self, place: UUID, listed: bytes) -> str:
        """The cursor of a position."""
        return await self.write_bytes(place.bytes, listed)

    async def read_bytes(self, given: str, listed: bytes) -> bytes:
        """The same for a position that is more than an id."""
        place = _shown(given, listed, await self._key())
        if place is None:
            raise _refused()
        return place

    async def write_bytes(self, place: bytes, listed: bytes) -> str:
        return _hidden(place, listed, await self._key())

    async def of_events(self, tenant_id: int) -> "EventCursors":
        """The cursors of a tenant's events."""
        return EventCursors(tenant_id, await self._key())

    async def _key(self) -> bytes:
        if self._secret is None:
            self._secret = await self._store.tenants.secret("cursors", os.urandom(32))
        return self._secret


class EventCursors:
    """Positions in the event stream, as one tenant sees them."""

    def __init__(self, tenant_id: int, key: bytes) -> None:
        self._about = _encoder.encode([tenant_id, "events"])
        self._key = key

    def write(self, mark: EventMark, *, fresh: bool = False) -> str:
        """The same text for the same event; with `fresh`, a text that does not reveal whether the position has
        changed."""
        blur = os.urandom(_PLACE - _MARK) if fresh else bytes(_PLACE - _MARK)
        return _hidden(mark.to_bytes(_MARK, "big") + blur, self._about, self._key)

    def read(self, given: str) -> EventMark | None:
        """None if the text is not a cursor of this tenant."""
        place = _shown(given, self._about, self._key)
        return None if place is None or len(place) != _PLACE else EventMark(int.from_bytes(place[:_MARK], "big"))


def name_list(tenant_id: int, scope: Scope | None, endpoint: str, path: Mapping[str, str], query: Any) -> bytes:
    """The list that a cursor is bound to: a list of this tenant, in this scope, with this filter."""
    # The page size may change from page to page; everything else may not.
    asked = msgspec.structs.replace(query, cursor=None, page_size=1)
    return _encoder.encode([tenant_id, scope, endpoint, sorted(path.items()), asked])


def _hidden(place: bytes, about: bytes, key: bytes) -> str:
    tag = _sign(place, about, key)
    return urlsafe_b64encode(_masked(place, tag, key) + tag).decode().rstrip("=")


def _shown(given: str, about: bytes, key: bytes) -> bytes | None:
    try:
        raw = urlsafe_b64decode(given.encode("ascii") + b"=" * (-len(given) % 4))
    except ValueError:
        return None
    hidden, tag = raw[:-_TAG], raw[-_TAG:]
    if len(hidden) < _PLACE:
        return None
    place = _masked(hidden, tag, key)
    return place if compare_digest(tag, _sign(place, about, key)) else None


def _sign(place: bytes, about: bytes, key: bytes) -> bytes:
    return blake2b(place + about, digest_size=_TAG, key=key, person=b"duetime cursor").digest()


def _masked(place: bytes, tag: bytes, key: bytes) -> bytes:
    """Mask a position, or unmask a masked one."""
    blocks = range(-(-len(place) // _PLACE))
    mask = b"".join(
        blake2b(tag, digest_size=_PLACE, key=key, salt=block.to_bytes(8, "big"), person=b"duetime place").digest()
        for block in blocks
    )
    return bytes(each ^ over for each, over in zip(place, mask, strict=False))


def _refused() -> Problem:
    return Problem(
        INVALID_CURSOR,
        "is not a cursor of this list with this filter",
        field="cursor",
        remedy="start again without a cursor",
    )
