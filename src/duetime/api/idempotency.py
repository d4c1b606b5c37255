"""Idempotency keys in request headers. Every POST accepts one; a submission accepts a nonce instead (`model/nonce.py`).

Submissions, and requests that make runs, store their keys in the transaction of the effect (`repeats="by handler"`).
For other requests, the response is stored beside the effect: the key is taken before the handler starts, the response
is stored when it ends, and the key of a refused request is released. When a server dies in between, or the database's
answer is lost, the key stays taken, and a repeated request gets an error instead of being executed again.

Responses can contain secrets (the text of a new API key). They are encrypted with a key derived from the caller's
credentials, which are not stored: a copy of the database does not reveal them, and no other caller gets them. A user's
token is renewed every few minutes, so the user is the key there: the responses that users get contain no secrets.
"""

import asyncio
import os
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from duetime.api.call import Call
from duetime.api.endpoint import JSON, Reply
from duetime.errors import InvalidInput, KeyReused, StoreUnavailable
from duetime.ids import id_from_nonce
from duetime.model.idempotency import KeyedRequest, keyed_request
from duetime.model.name import check_key
from duetime.model.nonce import HEADER as NONCE_HEADER
from duetime.model.nonce import read_nonce

HEADER = b"idempotency-key"
NONCE = NONCE_HEADER.lower().encode()
SUBMISSION = {
    NONCE_HEADER: "Instead of an Idempotency-Key: a new UUIDv7, within ten minutes of the server's clock. A repeated"
    " request with the same nonce creates nothing twice, and needs no stored key on a stream queue."
}
"""The headers that only a submission has, with their descriptions."""
_NONCE = 12
_LARGEST = 1024 * 1024
_encoder = msgspec.json.Encoder(order="deterministic")


class _Answer(msgspec.Struct, frozen=True, array_like=True):
    status: int
    content: bytes
    media: str
    headers: dict[str, str]


_decoder = msgspec.msgpack.Decoder(_Answer)


class Repeat(NamedTuple):
    """How a repeated submission is recognized."""

    key: str
    nonce: UUID | None
    """The nonce that the key is; None for a key that the caller chose."""

    def job_id(self, tenant_id: int, place: int = 0) -> UUID | None:
        return None if self.nonce is None else id_from_nonce(self.nonce, tenant_id, place)


def repeat_of(call: Call) -> Repeat | None:
    """The key or the nonce of a submission, from its headers."""
    key, nonce = call.header(HEADER), call.header(NONCE)
    if nonce is None:
        return None if key is None else Repeat(key, None)
    if key is not None:
        raise InvalidInput(
            "the request also has an Idempotency-Key", field=NONCE_HEADER, remedy="send one of the two headers"
        )
    found = read_nonce(nonce)
    return Repeat(str(found), found)


def keyed_by_header(call: Call, operation: str, *parts: object) -> KeyedRequest | None:
    """The keyed request, if the header has a key."""
    return keyed_request(call.header(HEADER), operation, *parts)


def replay_headers(request: KeyedRequest | None) -> dict[str, str]:
    """The header that marks a repeated response."""
    return {"idempotency-replayed": "true"} if request is not None and request.replayed else {}


def keeps_answer(call: Call) -> bool:
    """Whether the response of this request is stored under its idempotency key."""
    if call.endpoint.method != "POST" or HEADER not in call.headers:
        return False
    check_key(call.header(HEADER), "idempotency_key")
    return call.endpoint.repeats == "by answer"


async def answered_once(call: Call) -> Reply:
    """The handler's response, or its stored response to the same request with the same key."""
    asked = await asyncio.to_thread(_asked, call) if _is_large(call.body) else _asked(call)
    request = keyed_by_header(call, call.endpoint.name, str(call.who.counts_as), sorted(call.path.items()), asked)
    assert request is not None
    store, tenant_id = call.store, call.tenant_id
    kept = await store.answers.begin_request(tenant_id, request)
    if kept is not None:
        first = _opened(call, request, kept)
        return Reply(None, first.status, first.headers | replay_headers(request), first.content, first.media)
    try:
        given = await call.endpoint.handler(call)
    except StoreUnavailable:
        raise  # it is not known whether it was done, so the key stays taken
    except Exception:
        await store.answers.end_request(tenant_id, request, None)
        raise
    reply = given if isinstance(given, Reply) else Reply(given)
    content = _encoder.encode(reply.value) if reply.content is None else reply.content
    answer = _Answer(reply.status or call.endpoint.status, content, reply.media, dict(reply.headers))
    if len(content) <= _LARGEST:  # the key of a larger one stays taken: a repeated request gets an error
        await store.answers.end_request(tenant_id, request, _sealed(call, request, answer))
    return Reply(None, answer.status, answer.headers, content, answer.media)


def _is_large(body: Any) -> bool:
    """Whether hashing it would block the event loop for milliseconds."""
    return isinstance(body, bytes) and len(body) > _LARGEST


def _asked(call: Call) -> str:
    """A digest of what makes two requests different: query, media type and body."""
    body: Any = call.body
    content = body if isinstance(body, bytes) else _encoder.encode(body)
    media = call.headers.get(b"content-type", JSON.encode()) if isinstance(body, bytes) else b""
    digest = blake2b(_encoder.encode(call.query) + b"\n" + media + b"\n", digest_size=32)
    digest.update(content)
    return digest.hexdigest()


def _cipher(call: Call, request: KeyedRequest) -> ChaCha20Poly1305:
    if call.who.issuer_id is not None:
        shown = str(call.who.counts_as).encode()
    else:
        shown = call.headers.get(b"authorization") or call.headers.get(b"cookie", b"")
    key = blake2b(request.key.encode() + b"\n" + shown, digest_size=32, person=b"duetime answer").digest()
    return ChaCha20Poly1305(key)


def _sealed(call: Call, request: KeyedRequest, answer: _Answer) -> bytes:
    nonce = os.urandom(_NONCE)
    plain = msgspec.msgpack.encode(answer)
    return nonce + _cipher(call, request).encrypt(nonce, plain, request.fingerprint)


def _opened(call: Call, request: KeyedRequest, kept: bytes) -> _Answer:
    try:
        plain = _cipher(call, request).decrypt(kept[:_NONCE], kept[_NONCE:], request.fingerprint)
    except InvalidTag:
        raise KeyReused(
            f"the idempotency key {request.key!r} was used by another caller",
            field="idempotency_key",
            remedy="use a new key for a new request",
        ) from None
    return _decoder.decode(plain)
