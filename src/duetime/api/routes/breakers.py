"""Circuit breakers of targets."""

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.model.access import Action
from duetime.model.breaker import Breaker
from duetime.model.structs import struct_like
from duetime.wire.breakers import BreakerList, BreakerReset, BreakerView

routes = Routes("Breakers")


@routes.get("/v1/breakers", Action.READ, answer=BreakerList)
async def list_breakers(call: Call) -> BreakerList:
    """List the breakers of targets: those that are open, and those that were tried within 30 seconds."""
    return BreakerList(tuple(_view(each) for each in await call.service.store.breakers.breakers(call.tenant_id)))


@routes.post("/v1/breakers/reset", Action.STEER_QUEUES, body=BreakerReset, answer=BreakerView)
async def reset_breaker(call: Call) -> BreakerView:
    """Close a breaker at once, and reset its counts."""
    breaker = await call.service.store.breakers.reset_breaker(call.tenant_id, call.body.target)
    await call.act("breakers.reset", breaker.target)
    return _view(breaker)


def _view(breaker: Breaker) -> BreakerView:
    return struct_like(BreakerView, breaker, state=breaker.state.name.lower())
