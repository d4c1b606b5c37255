"""Idempotency keys of requests that submit nothing, as headers have them."""

from duetime.api.endpoint import Call
from duetime.model.idempotency import KeyedRequest, keyed_request

IDEMPOTENCY = {"Idempotency-Key": "The same key and body again give the first answer again."}


def keyed_by_header(call: Call, operation: str, *parts: object) -> KeyedRequest | None:
    """The request with the key of its header, if it has one."""
    return keyed_request(call.header(b"idempotency-key"), operation, *parts)


def told_again(request: KeyedRequest | None) -> dict[str, str]:
    """The header that says that this is the first answer again."""
    return {"idempotency-replayed": "true"} if request is not None and request.replayed else {}
