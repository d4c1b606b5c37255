"""Whatever a worker or a caller sends: an answer, or a problem that says what is wrong; the server never fails."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.wire import workers as wire
from tests.fuzz.strategies import fuzzed, texts, values
from tests.support.served import Served, served

PROTOCOL: dict[str, type[msgspec.Struct]] = {
    "": wire.Registration,
    "/{worker}/claim": wire.Ask,
    "/{worker}/heartbeat": wire.Beat,
    "/{worker}/complete": wire.Reports,
    "/{worker}/note": wire.Notes,
    "/{worker}/hand-back": wire.HandBack,
}
WORKER = {"name": "fuzz", "tasks": ["work"]}
REFUSED = frozenset({400, 401, 403, 404, 405, 406, 409, 410, 411, 413, 414, 415, 422, 429})


class Asking:
    """A server, and a loop to ask it from."""

    def __init__(self, folder: Path) -> None:
        self._runner = asyncio.Runner()
        self._context = served(f"sqlite:///{folder / 'duetime.db'}")
        self._server: Served = self._runner.run(self._context.__aenter__())
        registered = self._runner.run(self._server.post("/v1/workers", WORKER))
        self.worker = registered.json["worker_id"]
        self._session = {"Duetime-Worker-Token": registered.json["token"]}

    def ask(self, method: str, path: str, raw: bytes | None) -> int:
        return self._runner.run(self._server.ask(method, path, raw=raw, headers=self._session)).status

    def close(self) -> None:
        self._runner.run(self._context.__aexit__(None, None, None))
        self._runner.close()


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    made = Asking(tmp_path_factory.mktemp("asking"))
    yield made
    made.close()


def body(to: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """An object whose fields are named as they should be, and hold anything; none asks to wait."""
    names = st.sampled_from([name for name in (*to.__struct_encode_fields__, "of_the_next_release") if name != "wait"])
    return st.dictionaries(names, values, max_size=6) | values


@fuzzed
@given(st.data())
def test_the_worker_protocol(asking: Asking, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([*PROTOCOL]))
    asked = data.draw(body(PROTOCOL[path]))
    if path.endswith("/claim") and isinstance(asked, dict):
        asked = {"claim_no": 1, "wait": 0, **asked}
    sent = data.draw(st.just(json.dumps(asked).encode()) | st.binary(max_size=50))
    status = asking.ask("POST", f"/v1/workers{path.format(worker=asking.worker)}", sent)
    assert status < 300 or status in REFUSED - {404}


@fuzzed
@given(st.dictionaries(st.sampled_from(["task", "args", "cron", "every", "when", "key", "retry", "tags"]), values))
def test_jobs(asking: Asking, job: dict[str, Any]) -> None:
    status = asking.ask("POST", "/v1/jobs", json.dumps(job).encode())
    assert status < 300 or status in REFUSED


@fuzzed
@given(st.sampled_from(["/v1/jobs", "/v1/runs", "/v1/dead-letters", "/v1/audit"]), texts)
def test_cursors(asking: Asking, path: str, cursor: str) -> None:
    status = asking.ask("GET", f"{path}?cursor={quote(cursor.encode('utf-8', 'surrogatepass'))}", None)
    assert status in REFUSED or not cursor
