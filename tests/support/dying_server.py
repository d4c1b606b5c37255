"""A server that dies right after its first submission is committed, before it answers."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from duetime.api.http_server import HttpServer
from duetime.model.job import NewJob, Submitted
from duetime.node.assembly import Node
from duetime.settings import load
from duetime.store.postgres import intake as postgres
from duetime.store.protocol.store import Store
from duetime.store.sqlite import intake as sqlite


def die_after_commit(kind: type[postgres.IntakeRole] | type[sqlite.IntakeRole]) -> None:
    submit = kind.submit

    async def submit_and_die(self: Any, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        await submit(self, tenant_id, jobs)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("still alive")

    kind.submit = submit_and_die  # type: ignore[method-assign]


async def announce(_: Store, server: HttpServer | None) -> None:
    assert server is not None
    print(server.url, flush=True)


if __name__ == "__main__":
    if "--die" in sys.argv:
        die_after_commit(postgres.IntakeRole)
        die_after_commit(sqlite.IntakeRole)
    asyncio.run(Node(load(None, os.environ, {}), serve=True).run(announce))
