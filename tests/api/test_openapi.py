"""The API is what its OpenAPI document says: the document in the repository, and every answer to generated requests."""

import asyncio
import contextlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import booleans
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from duetime.api.problems import KINDS
from duetime.api.routes.reference import document
from duetime.api.table import ENDPOINTS
from tests.support.openapi_file import FILE
from tests.support.served import Served, served

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
ENDLESS = {"watch_events", "claim_runs"}
"""An answer that does not end, or waits for as long as it is told, cannot be waited for; it has tests of its own."""
EXAMPLES = 1
PARTS = 4
"""Each takes a while, and they can be tried side by side."""


def test_the_file_in_the_repository_is_the_api() -> None:
    assert FILE.read_bytes() == document(), "the API has changed: run make docs, and see that /v1 stays compatible"


def test_names_are_unique() -> None:
    names = [endpoint.name for endpoint in ENDPOINTS]
    assert len(names) == len(set(names))
    routes = [(endpoint.method, endpoint.path) for endpoint in ENDPOINTS]
    assert len(routes) == len(set(routes))


def test_every_code_is_documented() -> None:
    page = (FILE.parent / "docs" / "api.md").read_text()
    rows = re.findall(r"^\| ([0-9]{3}) \| (.*?) \|", page, re.MULTILINE)
    documented = {(int(status), code) for status, codes in rows for code in re.findall(r"`(\w+)`", codes)}
    assert documented == {(kind.status, kind.code) for kind in KINDS}


@contextmanager
def server(database_url: str) -> Iterator[tuple[Served, dict[str, str]]]:
    """The API in a thread of its own, with one of everything in it."""
    ready: threading.Event = threading.Event()
    found: list[Any] = []

    async def run() -> None:
        async with served(database_url) as api:
            found.append((api, await _things(api)))
            stop = asyncio.Event()
            found.append((asyncio.get_running_loop(), stop))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield found[0]
    finally:
        if len(found) == 2:
            loop, stop = found[1]
            loop.call_soon_threadsafe(stop.set)
        thread.join(30)


async def _things(api: Served) -> dict[str, str]:
    await api.tenant("acme")
    job = (await api.post("/v1/jobs", {"task": "t", "every": "1h"})).json
    run = (await api.post(f"/v1/jobs/{job['job_id']}/trigger")).json
    key = (await api.post("/v1/admin/keys", {"role": "viewer", "name": "v"})).json
    payload = (await api.post("/v1/payloads", raw=b"x")).json
    graph = (await api.post("/v1/graphs", {"nodes": {"a": {"task": "t"}}})).json
    return {
        "graph_id": graph["graph_id"],
        "job_id": job["job_id"],
        "run_id": run["run_id"],
        "key_id": key["key_id"],
        "payload_id": payload["payload_ref"],
        "queue": "mail",
        "tenant": "acme",
    }


@pytest.mark.parametrize("part", range(PARTS))
def test_generated_requests_get_documented_answers(migrated: str, tmp_path: Path, part: int) -> None:
    """Making requests takes longer than answering them, so each goes to both stores."""
    with server(f"sqlite:///{tmp_path / 'duetime.db'}") as file, server(migrated) as database:
        targets = [_Target(*file), _Target(*database)]
        found = [target.session.get(f"{target.url}/openapi.json", timeout=10).json() for target in targets]
        assert found == [json.loads(FILE.read_bytes())] * 2
        schema = schemathesis.openapi.from_dict(found[0])
        operations = [result.ok() for result in schema.get_all_operations()]
        by_name = {operation.definition.raw["operationId"]: operation for operation in operations}
        assert by_name.keys() == {endpoint.name for endpoint in ENDPOINTS}
        for name in sorted(by_name.keys() - ENDLESS)[part::PARTS]:
            _try(by_name[name], GenerationMode.POSITIVE, targets)
            with contextlib.suppress(Unsatisfiable):  # there is nothing to get wrong in a request without any part
                _try(by_name[name], GenerationMode.NEGATIVE, targets)


class _Target:
    def __init__(self, api: Served, things: dict[str, str]) -> None:
        self.url = api.url
        self.things = things
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {api.root}"


def _try(operation: Any, mode: GenerationMode, targets: list[_Target]) -> None:
    quick = settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    @quick
    @given(case=operation.as_strategy(generation_mode=mode), real=booleans())
    def attempt(case: Any, real: bool) -> None:
        for target in targets:
            if real:  # an id that exists: what is behind it gets its turn too
                known = {name: target.things[name] for name in case.path_parameters or {} if name in target.things}
                case.path_parameters = {**(case.path_parameters or {}), **known}
            response = case.call(base_url=target.url, session=target.session, timeout=20, allow_redirects=False)
            case.validate_response(response, checks=CHECKS)

    attempt()
