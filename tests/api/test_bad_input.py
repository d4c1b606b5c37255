"""What cannot be meant gets its expected answer, and changes nothing."""

import asyncio
import contextlib
import gzip
import json
import re
import socket
import tracemalloc
import zlib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duetime.api import bodies
from duetime.api.bodies import unpack
from duetime.api.decoding import ELSEWHERE
from duetime.api.problems import Problem
from duetime.ids import new_id, show
from duetime.model.access import Role
from duetime.store.protocol.store import Counts
from tests.support.served import Served, served

JOB = b'{"task":"t","args":{"x":%s}}'

# fmt: off
BODIES: dict[str, tuple[bytes, int, str, str | None]] = {
    "nothing": (b"", 400, "invalid_json", None),
    "not JSON": (b"{task: t}", 400, "invalid_json", None),
    "not an object": (b"[]", 422, "invalid_input", None),
    "two values": (b'{"task":"t"} {}', 400, "invalid_json", None),
    "a byte order mark": (b"\xef\xbb\xbf{}", 400, "invalid_json", None),
    "UTF-16": ('{"task":"t"}'.encode("utf-16"), 400, "invalid_json", None),
    "broken UTF-8": (b'{"task":"\xff"}', 400, "invalid_json", None),
    "nesting 30,000 deep": (JOB % (b"[" * 30_000 + b"]" * 30_000), 400, "invalid_json", None),
    "nesting 65 deep": (JOB % (b"[" * 65 + b"]" * 65), 422, "invalid_input", "args.x"),
    "a key twice": (b'{"task":"t","task":"u"}', 400, "invalid_json", None),
    "a key twice in the arguments": (JOB % b'{"a":1,"a":1}', 400, "invalid_json", None),
    "5,000 digits": (JOB % (b"1" * 5_000), 400, "invalid_json", None),
    "more than 64 bits": (JOB % b"9223372036854775808", 422, "invalid_input", "args.x"),
    "a number out of range": (JOB % b"1e999", 400, "invalid_json", None),
    "NaN": (JOB % b"NaN", 400, "invalid_json", None),
    "infinity": (JOB % b"-Infinity", 400, "invalid_json", None),
    "a lone surrogate": (JOB % b'"\\ud800"', 400, "invalid_json", None),
    "a lone surrogate as key": (JOB % b'{"\\uDC00":1}', 400, "invalid_json", None),
    "a bare NUL": (JOB % b'"\x00"', 400, "invalid_json", None),
    "NUL in a name": (b'{"task":"t","name":"a\\u0000b"}', 422, "invalid_input", "name"),
    "NUL in a task": (b'{"task":"t\\u0000"}', 422, "invalid_input", "task"),
}

JOBS: dict[str, tuple[dict[str, Any], str, str]] = {
    "no task": ({"task": None}, "task", "give task, target or callback_url"),
    "an unknown field": ({"taks": 1}, "taks", "did you mean task?"),
    "a spelling from elsewhere": ({"runAt": "2026-01-01T00:00:00Z"}, "runAt", "use run_at"),
    "parameters": ({"parameters": {}}, "parameters", "use args"),
    "user_id": ({"user_id": "u"}, "user_id", "use owner"),
    "payloadRef": ({"payloadRef": "u"}, "payloadRef", "use payload_ref"),
    "tenant_id": ({"tenant_id": 2}, "tenant_id", "Duetime-Tenant"),
    "status": ({"status": "SUCCEEDED"}, "status", "is not a known field"),
    "job_id": ({"job_id": "job_x"}, "job_id", "is not a known field"),
    "a task with spaces": ({"task": "my task"}, "task", "letters, digits"),
    "an empty task": ({"task": ""}, "task", "1 or more characters"),
    "arguments in a list": ({"args": [1]}, "args", "Expected 'object"),
    "a path as zone": ({"cron": "* * * * *", "tz": "../../etc/passwd"}, "tz", "is not a time zone"),
    "an absolute path as zone": ({"cron": "* * * * *", "tz": "/etc/passwd"}, "tz", "is not a time zone"),
    "year 9999": ({"run_at": "9999-12-31T23:59:59Z"}, "run_at", "out of range"),
    "year 10000": ({"run_at": "10000-01-01T00:00:00Z"}, "run_at", "is not a time"),
    "30 February": ({"run_at": "2026-02-30T00:00:00Z"}, "run_at", "is not a time"),
    "a time without an offset": ({"run_at": "2026-02-20T00:00:00"}, "run_at", "has no time zone"),
    "a start at year 9999": ({"every": "1h", "start_at": "9999-12-31T23:59:59Z"}, "start_at", "out of range"),
    "two times": ({"run_at": "2026-02-20T00:00:00Z", "cron": "* * * * *"}, "cron", "cannot be combined"),
    "words and a time": ({"when": "every day", "run_in": 5}, "when", "cannot be combined"),
    "words that recur, once": ({"when": "every day", "once": True}, "when", "'every day' is a recurring schedule"),
    "a cron line, once": ({"cron": "* * * * *", "once": True}, "cron", "is a recurring schedule"),
    "words that say nothing": ({"when": "once in a blue moon"}, "when", ""),
    "a negative delay": ({"run_in": -5}, "run_in", "duration"),
    "an endless delay": ({"run_in": 1e300}, "run_in", "duration"),
    "a bad cron line": ({"cron": "61 * * * *"}, "cron", "out of range"),
    "an unknown priority": ({"priority": "URGENT"}, "priority", "'URGENT' is not a valid value"),
    "a negative timeout": ({"timeout": -1}, "timeout", "duration"),
    "a policy without a rhythm": ({"overlap": "skip"}, "overlap", "requires `cron`, `rrule` or `every`"),
    "too many retries": ({"retries": 1001}, "retries", "<= 1000"),
    "an unknown field of a policy": ({"retry": {"retrys": 1}}, "retry.retrys", "is not a known field"),
    "a long key": ({"key": "k" * 256}, "key", "255 or fewer characters"),
    "an odd tag": ({"tags": ["fine", "not fine"]}, "tags[1]", "letters, digits"),
    "arguments that are too large": ({"args": {"x": "x" * 300_000}}, "args", "exceed the limit"),
}

QUERIES: dict[str, tuple[str, str, str]] = {
    "page_size 10⁹": ("page_size=1000000000", "page_size", "invalid_input"),
    "page_size 0": ("page_size=0", "page_size", "invalid_input"),
    "page_size ten": ("page_size=ten", "page_size", "invalid_input"),
    "an unknown parameter": ("page=2", "page", "invalid_input"),
    "a parameter twice": ("owner=a&owner=b", "owner", "invalid_input"),
    "an unknown status": ("status=DONE", "status", "invalid_input"),
    "a bad time": ("start_time=yesterday", "start_time", "invalid_input"),
    "a time at year 9999": ("end_time=9999-12-31T23:59:59Z", "end_time", "invalid_input"),
    "a cursor of letters": ("cursor=abc", "cursor", "invalid_cursor"),
    "a cursor of other letters": ("cursor=%C3%A4%C3%B6", "cursor", "invalid_cursor"),
    "bytes that are no text": ("owner=%FF", "query", "invalid_input"),
}
# fmt: on


async def test_bodies(api: Served) -> None:
    for name, (body, status, code, field) in BODIES.items():
        answer = await api.ask("POST", "/v1/jobs", raw=body)
        assert (answer.status, answer.code) == (status, code), (name, answer.body)
        assert (answer.json.get("field") or "").startswith(field or "") and bool(field) == ("field" in answer.json), (
            name
        )
        assert answer.headers["Content-Type"] == "application/problem+json"
    assert await api.store.reads.counts() == Counts(0, 0, 0, 0)


async def test_jobs(api: Served) -> None:
    for name, (given, field, words) in JOBS.items():
        answer = await api.post("/v1/jobs", {"task": "t"} | given)
        found = answer.json
        assert (answer.status, answer.code, found.get("field")) == (422, "invalid_input", field), (name, answer.body)
        assert words in f"{found.get('detail')} {found.get('remedy')}", (name, answer.body)
    assert await api.store.reads.counts() == Counts(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("body", "field", "remedy"),
    [
        ({"task": "t", "misfire": {"mod": "all"}}, "misfire.mod", "did you mean mode?"),
        ({"task": "t", "retry": {"payload": 1}}, "retry.payload", "known fields: retries, "),
        ({"task": "t", "retry": {"delay": 1}}, "retry.delay", "known fields: retries, "),
        ({"task": "t", "delay": 5}, "delay", "use run_in"),
        ({"target": {"type": "shell", "url": "x"}}, "target.url", "known fields: "),
    ],
)
async def test_the_remedy_for_an_unknown_field_is_about_its_object(
    api: Served, body: dict[str, Any], field: str, remedy: str
) -> None:
    answer = await api.post("/v1/jobs", body)
    assert (answer.status, answer.json["field"]) == (422, field)
    assert answer.json["remedy"].startswith(remedy)
    (item,) = (await api.post("/v1/jobs/batch", [body])).json["errors"]
    assert (item["field"], item["remedy"]) == (field, answer.json["remedy"])


async def test_queries(api: Served) -> None:
    for name, (query, field, code) in QUERIES.items():
        answer = await api.get(f"/v1/jobs?{query}")
        assert (answer.status, answer.code, answer.json["field"]) == (422, code, field), (name, answer.body)


async def test_what_may_be_odd(api: Served) -> None:
    """NUL, quotes, other scripts and large numbers come back as they went in."""
    args = {"nul": "a\x00b", "words": "Ünï 漢字 😀 \"'\\", "big": 2**63 - 1, "deep": [[[{"a": [None, True, 1.5]}]]]}
    job_id = (await api.post("/v1/jobs", {"task": "t", "args": args})).json["job_id"]
    assert (await api.get(f"/v1/jobs/{job_id}")).json["args"] == args


@pytest.mark.parametrize("path", ["/v1/jobs/{}", "/v1/runs/{}", "/v1/jobs/{}/status"])
async def test_ids(api: Served, path: str) -> None:
    odd = ["x", "job_", show("wrk", new_id()), "job_" + "z" * 26, "%00", "..%2f..", "job_" + "0" * 1000]
    for given in odd:
        assert (await api.get(path.format(given))).status == 404, given


async def test_methods_and_paths(api: Served) -> None:
    answer = await api.ask("PUT", "/v1/jobs", {})
    assert (answer.status, answer.code, answer.headers["Allow"]) == (405, "method_not_allowed", "GET, HEAD, POST")
    for path in ("/v1", "/v2/jobs", "/v1/jobs/", "/v1/nothing"):
        answer = await api.get(path)
        assert (answer.status, answer.headers["Content-Type"]) == (404, "application/problem+json"), path


async def test_media(api: Served) -> None:
    body = b'{"task":"t"}'
    for given in ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16"):
        answer = await api.ask("POST", "/v1/jobs", raw=body, headers={"Content-Type": given})
        assert (answer.status, answer.code) == (415, "unsupported_media_type"), given
    answer = await api.ask("POST", "/v1/jobs", raw=body, headers={"Content-Encoding": "br"})
    assert (answer.status, answer.code) == (415, "unsupported_media_type")


async def test_packed_bodies(api: Served) -> None:
    packed = {"Content-Encoding": "gzip"}
    fine = gzip.compress(b'{"task":"t"}')
    assert (await api.ask("POST", "/v1/jobs", raw=fine, headers=packed)).status == 201
    bomb = gzip.compress(b'{"task":"t","args":{"x":"' + b"0" * 50_000_000 + b'"}}')
    assert len(bomb) < 60_000
    answer = await api.ask("POST", "/v1/jobs", raw=bomb, headers=packed)
    assert (answer.status, answer.code) == (413, "too_large")
    for broken in (b"not gzip", fine[:-4], fine + fine, zlib.compress(b"{}")):
        answer = await api.ask("POST", "/v1/jobs", raw=broken, headers=packed)
        assert (answer.status, answer.code) == (400, "bad_request"), broken


async def test_a_gzip_bomb_does_not_go_off() -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(Problem, match="more than 100,000 bytes"):
            await unpack(bomb, 100_000)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


async def test_large_bodies(api: Served) -> None:
    answer = await api.ask("POST", "/v1/jobs", raw=b" " * 400_000 + b'{"task":"t"}')
    assert (answer.status, answer.code) == (413, "too_large")

    async def parts() -> Any:
        for _ in range(100):
            yield b" " * 10_000

    headers = {"Authorization": f"Bearer {api.root}", "Content-Type": "application/json"}
    async with api.http.post(f"{api.url}/v1/jobs", data=parts(), headers=headers) as chunked:
        assert chunked.status == 413


async def test_a_client_that_sends_all_before_it_reads_learns_why(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing at once would reset the connection, and the answer would be lost on its way."""
    monkeypatch.setattr(bodies, "_LINGER", 60.0)
    host, port = api.url.removeprefix("http://").split(":")
    size = 20_000_000
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.root}\r\nContent-Length: {size}\r\n\r\n"

    def talk() -> bytes:
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(head.encode() + b" " * size)
            with connection.makefile("rb") as answer:
                return answer.read()

    answer = await asyncio.to_thread(talk)
    assert answer.startswith(b"HTTP/1.1 413 ") and b"connection: close" in answer and answer.endswith(b"}")


async def test_a_body_that_dribbles(database_url: str) -> None:
    async with served(database_url, body_timeout=timedelta(milliseconds=300)) as api:
        host, port = api.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.root}\r\nContent-Length: 500\r\n\r\n"
        writer.write(head.encode())
        dribble = asyncio.create_task(_dribble(writer))
        # Not to the end: the server does not listen for long, and then resets the connection.
        answer = await asyncio.wait_for(reader.readuntil(b'"code":"slow_body"'), 10)
        assert answer.startswith(b"HTTP/1.1 408 ") and b"connection: close" in answer
        with contextlib.suppress(ConnectionError):  # it is let go all the same, however long it would go on
            await asyncio.wait_for(reader.read(), 10)
        dribble.cancel()
        writer.close()


async def _dribble(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"{")
        await writer.drain()
        await asyncio.sleep(0.02)


async def test_a_foreign_or_edited_cursor(api: Served) -> None:
    for _ in range(3):
        await api.post("/v1/jobs", {"task": "t", "owner": "me"})
    cursor = (await api.get("/v1/jobs?page_size=1")).json["next_cursor"]
    assert (await api.get(f"/v1/jobs?page_size=2&cursor={cursor}")).status == 200
    other = await api.key(Role.ADMIN, (await api.tenant("other")).id)
    turned = cursor[:5] + ("A" if cursor[5] != "A" else "B") + cursor[6:]
    for path, key in (
        (f"/v1/jobs?cursor={turned}", ""),
        (f"/v1/jobs?cursor={cursor}&owner=me", ""),
        (f"/v1/runs?cursor={cursor}", ""),
        (f"/v1/jobs?cursor={cursor}", other),
    ):
        answer = await api.get(path, key=key)
        assert (answer.status, answer.code) == (422, "invalid_cursor"), path


async def test_batches(api: Served) -> None:
    good, bad = {"task": "t"}, {"task": "t", "cron": "x"}
    answer = await api.post("/v1/jobs/batch", [good, bad, good, {"tusk": 1}])
    assert (answer.status, answer.json["field"]) == (422, "[1].cron")
    assert [(each["index"], each["field"]) for each in answer.json["errors"]] == [(1, "cron"), (3, "tusk")]
    for body in (b"{}", b"[]", json.dumps([good] * 10_001).encode()):
        assert (await api.ask("POST", "/v1/jobs/batch", raw=body)).status == 422
    lines = {"Content-Type": "application/x-ndjson"}
    answer = await api.ask("POST", "/v1/jobs/batch", raw=b'{"task":"t"}\n{"task":', headers=lines)
    assert (answer.status, answer.code, answer.json["field"]) == (400, "invalid_json", "[1]")
    twice = [{"task": "t", "key": "one"}] * 2
    assert (await api.post("/v1/jobs/batch", twice)).json["errors"][0]["index"] == 1
    assert await api.store.reads.counts() == Counts(0, 0, 0, 0)


def test_spellings_from_elsewhere_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text()
    rows = re.findall(r"^\| (`.*) \| (.*) \|$", page, re.MULTILINE)
    documented = {name: ours.replace("`", "") for names, ours in rows for name in re.findall(r"`(\w+)`", names)}
    assert documented == ELSEWHERE
