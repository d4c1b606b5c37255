"""No request keeps the event loop for longer than 50 ms, whatever it contains and whichever caller sends it.

Every endpoint is asked with the longest path, query and headers that are let in, and with the worst bodies that it
accepts, plain and packed. The largest requests that are carried out are in `test_pauses.py`. `make pauses` sends the
largest bodies there may be (32 MiB), which takes minutes. Without it most bodies are smaller; the longest steps are the
same, since work is done in slices.
"""

import asyncio
import gzip
import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any

import pytest

from duetime.api.bodies import limit_of
from duetime.api.endpoint import Endpoint
from duetime.api.routes import batches
from duetime.api.table import ENDPOINTS
from tests.support.pauses import Pauses, recorded_pauses
from tests.support.served import Served, served

FULL = bool(os.environ.get("DUETIME_TEST_PAUSES"))
MANY = 10_000 if FULL else 500
"""Jobs in one request."""
SMALL = 64 * 1024
LARGER = {"create_job": 256 * 1024, "create_jobs": 256 * 1024, "register_worker": 2 * 1024**2}
"""Bytes of a body, of one endpoint for each way to read it."""
LONGEST = 0.05
"""Seconds of processor time that a step may take."""
IDS = {"job_id": "job_01k9z0000000000000000000", "run_id": "run_01k9z0000000000000000000"}
WITHOUT_END = {"watch_events"}


class Worst:
    """The longest step of each request."""

    def __init__(self, pauses: Pauses) -> None:
        self._pauses = pauses
        self._found: list[tuple[float, str]] = []

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        await asyncio.sleep(0)  # what it takes to make a body is not the server's
        self._pauses.worst = 0.0
        yield
        self._found.append((self._pauses.worst, f"{name} {self._pauses.where}"))

    def check(self, record_property: Any) -> None:
        longest = [f"{1000 * took:.1f} ms: {name}" for took, name in sorted(self._found, reverse=True)[:8]]
        record_property("longest pauses", json.dumps(longest))
        print(f"\nlongest pauses of the event loop, over {len(self._found)} requests:", *longest, sep="\n")
        assert max(self._found)[0] <= LONGEST, longest


def fill(part: bytes, limit: int, begin: bytes, end: bytes) -> bytes:
    room = (limit - len(begin) - len(end)) // (len(part) + 1)
    return begin + b",".join([part] * room) + end


def names(size: int) -> bytes:
    return b",".join(b'"%07d":0' % number for number in range(max(1, size // 12)))


def bodies(limit: int, *, batch: bool) -> Iterator[tuple[str, bytes]]:
    """The bodies that are slowest to read, each as large as may be."""
    args, end = b'{"task":"t","args":{"x":[', b"]}}"
    yield "one name again and again", b'{"a":0,"a":0,' + names(limit - 30) + b"}"
    yield "empty objects", fill(b"{}", limit, args, end)
    yield "unknown names", b"{" + names(limit - 10) + b"}"
    if limit <= SMALL and not FULL:
        return
    yield "empty lists", fill(b"[]", limit, args, end)
    yield "numbers", fill(b"1", limit, args, end)
    yield "fractions", fill(b"1e1", limit, args, end)
    yield "a number without an end", args + b"1" * (limit - 40) + end
    yield "long numbers", fill(b"1" * 10_000, limit, args, end)
    yield "escapes", fill(b'"\\ud83d\\ude00"', limit, args, end)
    yield "half a character", fill(b"{}", limit, b'{"task":"t","args":{"x":["\\ud83d",', end)
    yield "one long text", args + b'"' + b"a" * (limit - 40) + b'"' + end
    yield "one long text of escapes", args + b'"' + b"\\u00e9" * ((limit - 40) // 6) + b'"' + end
    yield "many names", b'{"task":"t","args":{' + names(limit - 40) + b"}}"
    yield "one long name", b'{"' + b"a" * (limit - 10) + b'":0}'
    yield "nested", b'{"task":"t","args":{"x":' + b"[" * (limit // 2 - 30) + b"]" * (limit // 2 - 30) + b"}}"
    yield "space", b" " * (limit - 20) + b'{"task":"t"}'
    if batch:
        yield "objects that are no jobs", fill(b"{}", limit, b"[", b"]")
        yield "one job of all", b"[" + fill(b"{}", limit - 2, args, end) + b"]"
        yield "large jobs", fill(fill(b'"%s"' % (b"a" * 99), 250_000, args, end), limit, b"[", b"]")
        yield "wide jobs", fill(fill(b"[]", min(limit - 2, 100_000), args, end), limit, b"[", b"]")
        yield "a list of nothing", fill(b"", limit, b"[", b"]")
        yield "lines of nothing", b"\n" * limit
        for name, job in {
            "jobs": b'{"task":"t","args":{"n":1}}',
            "misspelt jobs": b'{"tsak":"t"}',
            "jobs with tags": b'{"task":"t","tags":["a","b","c"],"name":"n","owner":"o","run_in":3600}',
            "recurring jobs": b'{"task":"t","cron":"*/5 9-17 * * MON-FRI","tz":"Europe/Berlin"}',
            "jobs that wait for many": b'{"task":"t","depends_on":[%s]}' % b",".join([b'"job_%026d"' % 7] * 8_000),
            "jobs with an unreadable time": b'{"task":"t","when":"evry wekday at the qwe rty uio pas dfg hjk lzx"}',
        }.items():
            yield name, b"[" + b",".join([job] * min(MANY, limit // (len(job) + 1))) + b"]"


def path_of(endpoint: Endpoint, filler: str = "x", ids: Mapping[str, str] = IDS) -> str:
    path = endpoint.path
    for name in endpoint.parameters:
        path = path.replace("{" + name + "}", ids.get(name, filler) if filler == "x" else filler)
    return path


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
async def test_no_body_stops_the_loop(database_url: str, packed: bool, record_property: Any) -> None:
    async with served(database_url) as api:
        worker = (await api.post("/v1/workers", {"name": "w", "tasks": ["t"]})).json
        headers = {"Duetime-Worker-Token": worker["token"]} | ({"Content-Encoding": "gzip"} if packed else {})
        ids = IDS | {"worker_id": worker["worker_id"]}
        with recorded_pauses(without=asyncio.current_task()) as pauses:  # it sends the requests
            worst = Worst(pauses)
            for endpoint in ENDPOINTS:
                if endpoint.body is None:
                    continue
                limit = limit_of(endpoint, api.service.settings)
                if not FULL:
                    limit = min(limit, LARGER.get(endpoint.name, SMALL))
                if packed and limit <= SMALL and not FULL:
                    continue
                for name, plain in bodies(limit, batch=endpoint.name == "create_jobs"):
                    body = gzip.compress(plain, 1) if packed else plain
                    async with worst.of(f"{endpoint.name}: {name}"):
                        path = path_of(endpoint, ids=ids)
                        answer = await api.ask(endpoint.method, path, raw=BytesIO(body), headers=headers)
                    assert answer.status < 500 or answer.code == "overloaded", (endpoint.name, name, answer.body[:200])
            worst.check(record_property)


async def test_no_path_query_or_header_stops_the_loop(api: Served, record_property: Any) -> None:
    pairs = {f"p{number}": "x" * 500 for number in range(50)}
    query = "&".join(f"{name}={value}" for name, value in pairs.items())
    many = {f"X-{number}": "y" * 250 for number in range(90)}
    long = "9" * 25_000
    known = dict.fromkeys(("Idempotency-Key", "If-Match", "Last-Event-ID"), long[:6000])
    known["Cookie"] = "a=b;" * 1500
    hostile: list[tuple[str, str, str, dict[str, str]]] = [
        ("many headers", "x", "", many),
        ("headers that are read", "x", "", known),
        ("a long query", "x", f"?{query}", {}),
        ("one long parameter", "x", f"?page_size={long}", {}),
        ("escapes", "x", "?" + "%c3%a9=%ff&" * 40 + "x=" + "%00" * 8000, {}),
        ("a long path", long[:7000], "", {}),
        ("a path of slashes", "/" * 7000, "", {}),
        ("a long tenant", "x", "", {"Duetime-Tenant": long}),
    ]
    with recorded_pauses(without=asyncio.current_task()) as pauses:  # it sends the requests
        worst = Worst(pauses)
        for index, endpoint in enumerate(ENDPOINTS):
            for name, filler, rest, headers in hostile if FULL else (hostile[index % len(hostile)], hostile[2]):
                if endpoint.name in WITHOUT_END:
                    continue
                async with worst.of(f"{endpoint.name}: {name}"):
                    answer = await api.ask(endpoint.method, path_of(endpoint, filler) + rest, headers=headers)
                assert answer.status < 500 or answer.status == 503, (endpoint.name, name, answer.body[:200])
        for shown in (f"Bearer dt_live_{long}", long, "Bearer" + " " * 9000):
            async with worst.of("a long key"):
                answer = await api.get("/v1/jobs", key=None, headers={"Authorization": shown})
            assert answer.status == 401
        worst.check(record_property)


async def test_a_body_without_a_key_is_not_read(api: Served) -> None:
    """The completion's link is checked first: an unknown one is refused, whatever comes with it."""
    body = b'{"a":0,"a":0,' + names(300_000) + b"}"
    answer = await api.ask("POST", "/v1/completions/x", raw=body, key=None)
    assert answer.status == 404
    answer = await api.ask("POST", "/login", raw=b'{"key":"' + b"x" * 5_000 + b'"}', key=None)
    assert (answer.status, answer.code) == (413, "too_large")


async def test_a_batch_that_takes_long_to_check_is_refused(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these takes milliseconds, and there may be ten thousand."""
    monkeypatch.setattr(batches, "MOST_SECONDS", 0.05)
    never = {"task": "t", "rrule": "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30"}
    answer = await api.post("/v1/jobs/batch?partial=true", [never] * 200)
    assert (answer.status, answer.json["detail"]) == (422, "takes too long to validate")


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        (b'{"name":"' + b"\\u00e9" * 400_000 + b'"}', "a string is not terminated, or is longer"),
        (b'{"slots":' + b"1" * 2_000_000 + b"}", "a number or whitespace is longer"),
        (b'{"slots":' + b" " * 2_000_000 + b"1}", "a number or whitespace is longer"),
        (b'{"name":"' + b'\\"' * 900_000, "a string is not terminated"),
    ],
    ids=["text", "number", "space", "quotes"],
)
async def test_nothing_in_a_large_body_is_too_long(api: Served, body: bytes, refusal: str) -> None:
    """While the parser reads one text, number or space, nothing else runs."""
    answer = await api.post("/v1/workers", raw=BytesIO(body))
    assert answer.status in (400, 413) and refusal in answer.json["detail"]


async def test_what_is_long_but_allowed_is_read(api: Served) -> None:
    tasks = [f"{'a' * 150}{number}" for number in range(8_000)]
    body = json.dumps({"name": 'a "quoted" \\ name', "tasks": tasks}).encode()
    answer = await api.post("/v1/workers", raw=BytesIO(body))
    assert answer.status == 201
