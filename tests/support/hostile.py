"""Text that steers a terminal or hides in a line, and a server that says nothing else."""

import re
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
from aiohttp import web
from msgspec import inspect

from duetime.api.table import ENDPOINTS

ESCAPES = (
    "\x1b[2J\x1b]0;owned\x07\x9b31m\x08\x7f\x85\x00\r"  # clears the screen, sets a title, colours, deletes
    "\u202e\u2066\u2069\u200e\u061c"  # turns the direction around
    "\u200b\u200d\ufeff\u00ad\u2060\U000e0041"  # takes no room
    "\u2028\u2029"
)
FITTING = ("name", "arn:aws:iam::123456789012:role/name")
"""Texts for types with a pattern: the first that matches."""
HOSTILE = f"a{ESCAPES}\n12:00:00 ERROR   duetime: forged[red]b[/red]"


def dangers(text: str) -> set[str]:
    """The characters of a text that must not arrive."""
    return {
        each for each in text if each not in "\n\t" and unicodedata.category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    }


def hostile(kind: Any) -> Any:
    """A value of this type, with the text wherever its type takes any."""
    return _value(inspect.type_info(kind), "")


def _value(kind: inspect.Type, name: str) -> Any:
    match kind:
        case inspect.StrType():
            text = HOSTILE if kind.pattern is None else next(each for each in FITTING if re.search(kind.pattern, each))
            return text[: kind.max_length]
        case inspect.StructType():
            found = {each.encode_name: _value(each.type, each.encode_name) for each in kind.fields}
            if kind.tag_field is not None:
                found[kind.tag_field] = kind.tag
            return found
        case inspect.DictType():
            return {_value(kind.key_type, ""): _value(kind.value_type, name)}
        case inspect.VarTupleType() | inspect.ListType() | inspect.CollectionType():
            return [_value(kind.item_type, name)]
        case inspect.UnionType():
            if name == "next_cursor":
                return None
            return _value(next(each for each in kind.types if not isinstance(each, inspect.NoneType)), name)
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.EnumType():
            return next(iter(kind.cls)).value
        case inspect.BoolType():
            return name == "done"  # else who asks until it is done asks for ever
        case inspect.IntType() | inspect.FloatType():
            return 1 if kind.gt is not None else max(0, kind.ge or 0)
        case inspect.DateTimeType():
            return datetime(2026, 11, 17, tzinfo=UTC).isoformat()
        case inspect.DateType():
            return "2026-11-17"
        case inspect.AnyType() | inspect.RawType():
            return {HOSTILE: [HOSTILE]}
        case inspect.Metadata():
            return _value(kind.type, name)
    raise AssertionError(f"no value for {kind}")


_PROBLEM = {"code": "invalid_input", "title": HOSTILE, "detail": HOSTILE, "field": HOSTILE, "remedy": HOSTILE}


@asynccontextmanager
async def hostile_server(*, refuses: bool = False) -> AsyncIterator[str]:
    """The address of a server that answers every request of the API with hostile text, or refuses it with some."""
    application = web.Application()
    # A queue's name may have slashes: what comes after it is tried first.
    for endpoint in sorted(ENDPOINTS, key=lambda each: len(each.path), reverse=True):
        if refuses:
            body, media = msgspec.json.encode(_PROBLEM), "application/problem+json"
        elif endpoint.answers_with == "text/event-stream":
            event = {"kind": HOSTILE, "at": "2026-11-17T00:00:00Z", "job_ids": [HOSTILE], "run_ids": [HOSTILE]}
            body, media = b"id: " + HOSTILE.replace("\n", "").replace("\r", "").encode() + b"\ndata: ", "text/plain"
            body += msgspec.json.encode(event) + b"\n\n"
        else:
            body = msgspec.json.encode(None if endpoint.answer is None else hostile(endpoint.answer))
            media = "application/json"
        status = 422 if refuses else endpoint.status
        path = endpoint.path.replace("{queue}", "{queue:.+}").replace("{target}", "{target:.+}")
        application.router.add_route(endpoint.method, path, _answering(status, body, media))
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _answering(status: int, body: bytes, media: str) -> Any:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, body=body, headers={"content-type": media})

    return answer
