"""No request keeps the event loop for longer than 50 ms, whatever it sends and whoever sends it."""

import asyncio
import gzip
import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest

from duetime.api.bodies import limit_of
from duetime.api.endpoint import Endpoint
from duetime.api.table import ENDPOINTS
from tests.support.pauses import recorded_pauses
from tests.support.served import Served

SMALL = 64 * 1024
LONGEST = 0.05
"""Seconds of processor time that a step may take."""
IDS = {"job_id": "job_01k9z0000000000000000000", "run_id": "run_01k9z0000000000000000000"}


def bodies(limit: int, batch: bool) -> Iterator[tuple[str, bytes]]:
    """The bodies that are slowest to read, each as large as may be."""

    def fill(part: bytes, begin: bytes, end: bytes, join: bytes = b",") -> bytes:
        room = (limit - len(begin) - len(end)) // (len(part) + len(join))
        return begin + join.join([part] * room) + end

    args = b'{"task":"t","args":{"x":['
    yield "one name again and again", b'{"a":0,"a":0,' + _names(limit - 30) + b"}"
    yield "empty objects", fill(b"{}", args, b"]}}")
    yield "unknown names", b"{" + _names(limit - 10) + b"}"
    if limit <= SMALL:
        return
    yield "empty lists", fill(b"[]", args, b"]}}")
    yield "numbers", fill(b"1", args, b"]}}")
    yield "fractions", fill(b"1e1", args, b"]}}")
    yield "escapes", fill(b'"\\ud83d\\ude00"', args, b"]}}")
    yield "half a character", fill(b"{}", b'{"task":"t","args":{"x":["\\ud83d",', b"]}}")
    yield "many names", b'{"task":"t","args":{' + _names(limit - 40) + b"}}"
    yield "nested", b'{"task":"t","args":{"x":' + b"[" * (limit // 2 - 30) + b"]" * (limit // 2 - 30) + b"}}"
    if batch:
        yield "objects that are no jobs", fill(b"{}", b"[", b"]")
        yield "one job of all", b"[" + fill(b"{}", args, b"]}}") + b"]"
        yield "ten thousand jobs", b"[" + b",".join([b'{"task":"t","args":{"n":1}}'] * 10_000) + b"]"
        yield "ten thousand misspelt jobs", b"[" + b",".join([b'{"tsak":"t"}'] * 10_000) + b"]"


def _names(size: int) -> bytes:
    return b",".join(b'"%07d":0' % number for number in range(max(1, size // 12)))


def path_of(endpoint: Endpoint, ids: dict[str, str]) -> str:
    path = endpoint.path
    for name in endpoint.parameters:
        path = path.replace("{" + name + "}", ids.get(name, "x"))
    return path


WITH_BODY = [endpoint for endpoint in ENDPOINTS if endpoint.body is not None]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
async def test_no_body_stops_the_loop(api: Served, packed: bool, record_property: Any) -> None:
    worst: list[tuple[float, str]] = []
    worker = (await api.post("/v1/workers", {"name": "w", "tasks": ["t"]})).json
    headers = {"Duetime-Worker-Token": worker["token"]} | ({"Content-Encoding": "gzip"} if packed else {})
    ids = IDS | {"worker_id": worker["worker_id"]}
    with recorded_pauses() as pauses:
        for endpoint in WITH_BODY:
            limit = min(limit_of(endpoint, api.service.settings), 1024**2)
            if packed and limit <= SMALL:
                continue
            for name, plain in bodies(limit, endpoint.body_limit == "batch"):
                body = gzip.compress(plain, 1) if packed else plain
                await asyncio.sleep(0)  # what it takes to make a body is not the server's
                pauses.worst = 0.0
                answer = await api.ask(endpoint.method, path_of(endpoint, ids), raw=BytesIO(body), headers=headers)
                assert answer.status < 500, (endpoint.name, name, answer.body[:200])
                worst.append((pauses.worst, f"{endpoint.name}: {name} {pauses.where}"))
    longest = [f"{1000 * took:.1f} ms: {name}" for took, name in sorted(worst, reverse=True)[:5]]
    record_property("longest pauses", json.dumps(longest))
    print("longest pauses of the event loop:", *longest, sep="\n")
    assert max(worst)[0] <= LONGEST, longest


async def test_a_body_without_a_key_is_not_read(api: Served) -> None:
    """The completion's link is checked first: an unknown one is refused, whatever comes with it."""
    body = b'{"a":0,"a":0,' + _names(300_000) + b"}"
    answer = await api.ask("POST", "/v1/completions/x", raw=body, key=None)
    assert answer.status == 404
    answer = await api.ask("POST", "/login", raw=b'{"key":"' + b"x" * 5_000 + b'"}', key=None)
    assert (answer.status, answer.code) == (413, "too_large")
