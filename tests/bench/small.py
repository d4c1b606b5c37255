"""A benchmark that is small enough for a test, on the tests' server."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.context import Bench
from bench.filled import Filled, _fill
from bench.knobs import Knobs
from bench.peers.registry import Peers
from bench.stores import Databases
from tests.support.postgres import Server


class FilledHere(Filled):
    """Filled in an empty database of the test, and not kept."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def __enter__(self) -> "FilledHere":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def database(self, stored: int) -> str:
        await _fill(self._dsn, stored)
        return self._dsn


@contextmanager
def small_bench(postgres: Server, folder: Path, database: str, **knobs: Any) -> Iterator[Bench]:
    asked = Knobs(
        **{"rounds": 1, "runs": 500, "seconds": 0.5, "stored": 4_000, "peers": "0", "results": folder} | knobs
    )
    databases = Databases(postgres, folder)
    peers = Peers(asked, databases.postgres)
    try:
        yield Bench(asked, databases, peers, FilledHere(database))
    finally:
        peers.close()


def results(folder: Path, scenario: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((folder / f"{scenario}.json").read_text())
    return body
