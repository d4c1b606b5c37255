"""Whether the server is alive and ready, what it counts, and what it offers."""

import asyncio

from duetime.api.endpoint import Call, Reply, Routes
from duetime.api.problems import UNAVAILABLE, Problem
from duetime.model.access import Action
from duetime.telemetry.exposition import MEDIA
from duetime.wire.service import Health

routes = Routes("Health")
_PATIENCE = 2.0


@routes.get("/livez", None, answer=Health)
async def livez(call: Call) -> Health:
    """The process answers."""
    return Health("ok")


@routes.get("/readyz", None, answer=Health, problems=(503,))
async def readyz(call: Call) -> Health:
    """The database answers too, and its schema is one that this server knows."""
    try:
        async with asyncio.timeout(_PATIENCE):
            await call.service.store.check_schema()
    except TimeoutError:
        raise Problem(UNAVAILABLE, "the database does not answer", headers={"retry-after": "1"}) from None
    return Health("ok")


@routes.get("/metrics", Action.MANAGE_TENANTS, answers_with=MEDIA)
async def metrics(call: Call) -> Reply:
    """What this node counts, for Prometheus. Needs a root key; `metrics_port` shows the same without one."""
    return Reply(content=call.service.metrics.render(), media=MEDIA)
