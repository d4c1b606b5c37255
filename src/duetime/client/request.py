"""A request before it is sent: pure values, made the same way for the async client and the blocking one."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Generic, NamedTuple, Protocol, TypedDict, TypeVar
from urllib.parse import quote
from uuid import uuid4

import msgspec

from duetime.ids import new_id
from duetime.model import json
from duetime.model.nonce import HEADER
from duetime.spec.derived import OPTIONS

Moment = datetime | str
Length = timedelta | float | str
T_co = TypeVar("T_co", covariant=True)


class Request(NamedTuple, Generic[T_co]):
    method: str
    path: str
    answer: type[T_co]
    query: Mapping[str, object] = {}
    body: object = None
    headers: Mapping[str, str] = {}
    repeatable: bool = True
    """Whether sending it twice has the effect of sending it once."""
    timeout: float = 30.0


class Span(TypedDict, total=False):
    """Parameters of every list: a range of time, the page size, and the cursor of a page."""

    start_time: Moment | None
    end_time: Moment | None
    page_size: int | None
    cursor: str | None


class PageOf(Protocol[T_co]):
    """One page of a list, as the API answers it."""

    @property
    def items(self) -> tuple[T_co, ...]: ...

    @property
    def next_cursor(self) -> str | None: ...


def next_page(request: Request[T_co], cursor: str) -> Request[T_co]:
    """The same request for the page that follows."""
    return request._replace(query={**request.query, "cursor": cursor})


def path(template: str, *parts: str) -> str:
    """A path with its names filled in; nothing in a name can lead elsewhere."""
    return template.format(*(quote(part, safe="") for part in parts))


def given(**fields: object) -> dict[str, Any]:
    """What was given: None is left for the server to decide."""
    return {name: value for name, value in fields.items() if value is not None}


def job_fields(**fields: Any) -> dict[str, Any]:
    """The fields of a job as JSON has them."""
    return {name: field(name, value) for name, value in fields.items() if value is not None}


def field(name: str, value: Any) -> Any:
    """One field of a job: an option is written as its kind says, and must be JSON."""
    if name not in OPTIONS or value is None:
        return plain(value)
    written = OPTIONS[name].kind.write(value)
    json.encode(written, field=name)
    return written


def once(idempotency_key: str | None) -> dict[str, str]:
    """The header that makes a request repeatable: with the caller's key, or one of its own."""
    return {"Idempotency-Key": idempotency_key or str(uuid4())}


def submission(idempotency_key: str | None) -> dict[str, str]:
    """The header that makes a submission repeatable: with the caller's key, or a nonce, which needs no stored key."""
    return {HEADER: str(new_id())} if idempotency_key is None else {"Idempotency-Key": idempotency_key}


def moment(value: Moment) -> str:
    return value.isoformat() if isinstance(value, datetime) else value


def plain(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case msgspec.Struct():
            return msgspec.to_builtins(value)
        case _:
            return value
