"""Every text that a request may hold, given empty, blank, with NUL, with half a character, and far too long: an answer
or a problem, and never an error of the server or the words of a database."""

import json
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from msgspec import inspect

from duetime.api.endpoint import Endpoint
from duetime.api.problems import item_problem, problem_of
from duetime.api.table import ENDPOINTS
from duetime.errors import StoreRejected, reason_of
from duetime.model.job import DEFAULT_TENANT
from duetime.model.limits import QueueLimits, Rate
from tests.support.request_fields import BASES, bodies
from tests.support.served import Served

ODD = {"empty": "", "blank": " ", "NUL": "a\x00", "half": "\ud800", "long": "x" * 10_000}
DATABASE = ("database", "postgres", "sqlite", "constraint", "relation", "syntax", "asyncpg", "duetime.now", "utf8")
ENDLESS = {"watch_events"}


def takes_text(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.StrType | inspect.AnyType | inspect.RawType)


async def prepared(api: Served) -> dict[str, str]:
    """One of each thing that a path names."""
    job = (await api.post("/v1/jobs", {"task": "t", "every": "1h", "rate_key": "k", "rate": "1/s"})).json
    one = (await api.post("/v1/jobs", {"task": "t"})).json
    worker = (await api.post("/v1/workers", {"name": "w", "tasks": ["t"]})).json
    graph = (await api.post("/v1/graphs", {"nodes": {"a": {"task": "t"}}})).json
    payload = (await api.post("/v1/payloads", raw=b"x", headers={"Content-Type": "text/plain"})).json
    key = (await api.post("/v1/admin/keys", {"role": "viewer", "name": "k"})).json
    for kind, body in (
        ("calendars", {"dates": []}),
        ("secrets", BASES["put_secret"]),
        ("alerts", BASES["put_alert"]),
    ):
        assert (await api.ask("PUT", f"/v1/{kind}/name", body)).status == 200
    return {
        "job_id": job["job_id"],
        "run_id": one["run_id"],
        "worker_id": worker["worker_id"],
        "graph_id": graph["graph_id"],
        "payload_id": payload["payload_ref"],
        "key_id": key["key_id"],
        "tenant": "default",
        "token": "x",
    }


def is_fine(answer: Any, what: str) -> str | None:
    """What is wrong with an answer."""
    if answer.status >= 500:
        return f"{what}: {answer.status} {answer.body[:200]!r}"
    if answer.status >= 400:
        said = {name: answer.json.get(name) for name in ("detail", "remedy", "title")}
        if any(word in str(said).lower() for word in DATABASE):
            return f"{what}: {said}"
    return None


async def test_in_bodies(api: Served) -> None:
    ids = await prepared(api)
    wrong, asked = [], 0
    for endpoint in ENDPOINTS:
        path = endpoint.path.format_map(_Named(ids))
        for what, body in bodies(endpoint, takes_text, ODD):
            answer = await api.ask(endpoint.method, path, raw=json.dumps(body).encode(), headers=_media(endpoint))
            asked += 1
            wrong.append(is_fine(answer, f"{endpoint.name} {what}"))
    assert asked > 1000
    assert not [each for each in wrong if each]


async def test_in_paths_queries_and_headers(api: Served) -> None:
    ids = await prepared(api)
    wrong = []
    for endpoint in ENDPOINTS:
        if endpoint.name in ENDLESS:
            continue
        path = endpoint.path.format_map(_Named(ids))
        asks: list[tuple[str, str, dict[str, str]]] = []
        for name, odd in ODD.items():
            text = quote(odd.encode("utf-8", "surrogatepass"), safe="")
            asks += [
                (f"{{{each}}}={name}", endpoint.path.format_map(_Named(ids | {each: text})), {})
                for each in endpoint.parameters
                if text
            ]
            if endpoint.query is not None:
                fields = msgspec.structs.fields(endpoint.query)
                asks += [(f"?{each.encode_name}={name}", f"{path}?{each.encode_name}={text}", {}) for each in fields]
            if odd.isprintable() and odd.isascii() and len(odd) < 8000:
                headers = ("Idempotency-Key", "If-Match", "Duetime-Tenant", "traceparent", "Cookie")
                asks += [(f"{each}={name}", path, {each: odd}) for each in headers]
        for what, where, headers in asks:
            body = BASES.get(endpoint.name, {}) if endpoint.body not in (None, bytes) else None
            answer = await api.ask(endpoint.method, where, body, headers=headers)
            if endpoint.answers_with == "application/json" or answer.status >= 500:
                wrong.append(is_fine(answer, f"{endpoint.name} {what}"))
    assert not [each for each in wrong if each]


class _Named(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return "name"


def _media(endpoint: Endpoint) -> dict[str, str]:
    return {"Content-Type": endpoint.media[0]}


@pytest.mark.parametrize("where", ["create_job", "change_job", "preview_schedule"])
def test_the_fields_are_found(where: str) -> None:
    endpoint = next(each for each in ENDPOINTS if each.name == where)
    asked = {what.partition("=")[0] for what, _ in bodies(endpoint, takes_text, ODD)}
    assert {"tz", "cron"} <= asked


async def test_the_words_of_a_database_are_for_the_log(api: Served) -> None:
    limits = QueueLimits(rate=Rate(2**70, timedelta(seconds=1)))
    with pytest.raises(StoreRejected) as caught:
        await api.store.queues.limit_queue(DEFAULT_TENANT, "mail", limits)
    problem = problem_of(caught.value)
    assert problem is not None
    told = msgspec.json.encode([problem.document, item_problem(0, caught.value), str(caught.value)]).decode()
    assert not [word for word in DATABASE if word in told.lower()]
    assert reason_of(caught.value).startswith("a value cannot be stored: ") and caught.value.__cause__ is not None
