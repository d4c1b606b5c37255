"""Health, readiness and metrics of the server."""

from duetime.api.call import Call
from duetime.api.endpoint import Reply, Routes
from duetime.api.problems import RETRY_SOON, UNAVAILABLE, Problem
from duetime.model.access import Action
from duetime.telemetry.exposition import MEDIA
from duetime.wire.service import Health

routes = Routes("Health")


@routes.get("/livez", None, answer=Health)
async def livez(call: Call) -> Health:
    """The server responds."""
    return Health("ok")


@routes.get("/readyz", None, answer=Health, problems=(503,))
async def readyz(call: Call) -> Health:
    """The database is available and writable, and its schema is one that this server supports."""
    found = await call.service.readiness.reason()
    if found is not None:
        raise Problem(UNAVAILABLE, found.detail, remedy=found.remedy, headers={"retry-after": RETRY_SOON})
    return Health("ok")


@routes.get("/metrics", Action.MANAGE_TENANTS, answers_with=MEDIA)
async def metrics(call: Call) -> Reply:
    """Read the metrics of this node for Prometheus. Needs a root key; `metrics_port` serves them without one."""
    return Reply(content=call.service.metrics.render(), media=MEDIA)
