"""Cursors: where the next page of a list begins, as a text that only we can write.

A cursor is bound to its tenant, its list and its filter by a signature whose key all nodes share. One that was edited,
or that belongs to another list, another filter or another tenant, is refused.

Where a page begins is hidden under a mask that only holders of the key can make from the signature: a look that went
over everybody's runs may have stopped at one of another tenant, whose id and moment are not for the caller to know.
"""

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from hmac import compare_digest
from uuid import UUID

import msgspec

from duetime.api.endpoint import Call
from duetime.api.problems import INVALID_CURSOR, Problem
from duetime.store.protocol import Store

_PLACE = 16
_TAG = 16
_encoder = msgspec.json.Encoder(order="sorted")


class Cursors:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._secret: bytes | None = None

    async def read(self, call: Call) -> UUID | None:
        """Where the page that is asked for begins; None for the first."""
        given = call.query.cursor
        if given is None:
            return None
        try:
            raw = urlsafe_b64decode(given.encode("ascii") + b"=" * (-len(given) % 4))
        except ValueError:
            raise _refused() from None
        hidden, tag = raw[:-_TAG], raw[-_TAG:]
        if len(hidden) != _PLACE:
            raise _refused()
        place = _masked(hidden, tag, await self._key())
        if not compare_digest(tag, await self._sign(call, place)):
            raise _refused()
        return UUID(bytes=place)

    async def write(self, call: Call, place: UUID | None) -> str | None:
        """The cursor of the page that begins there."""
        if place is None:
            return None
        tag = await self._sign(call, place.bytes)
        hidden = _masked(place.bytes, tag, await self._key())
        return urlsafe_b64encode(hidden + tag).decode().rstrip("=")

    async def _key(self) -> bytes:
        if self._secret is None:
            self._secret = await self._store.secret("cursors", os.urandom(32))
        return self._secret

    async def _sign(self, call: Call, place: bytes) -> bytes:
        # The page size may change on the way; everything else may not.
        asked = msgspec.structs.replace(call.query, cursor=None, page_size=1)
        about = _encoder.encode([call.tenant_id, call.endpoint.name, sorted(call.path.items()), asked])
        return blake2b(place + about, digest_size=_TAG, key=await self._key(), person=b"duetime cursor").digest()


def _masked(place: bytes, tag: bytes, key: bytes) -> bytes:
    """A place hidden, or a hidden one shown."""
    mask = blake2b(tag, digest_size=_PLACE, key=key, person=b"duetime place").digest()
    return bytes(each ^ over for each, over in zip(place, mask, strict=True))


def _refused() -> Problem:
    return Problem(
        INVALID_CURSOR,
        "is not a cursor of this list with this filter",
        field="cursor",
        remedy="begin again without a cursor",
    )
