"""Stored payloads that jobs refer to. They are encrypted, and never part of a list, log or event."""

from uuid import UUID

from duetime.api.call import Call
from duetime.api.endpoint import Reply, Routes
from duetime.api.worker_sessions import SESSION, session_of
from duetime.errors import NotFound
from duetime.ids import new_id, show
from duetime.model.access import Action
from duetime.store.rules.seal_owners import payload_owner
from duetime.wire.jobs import Deleted
from duetime.wire.service import PayloadStored

routes = Routes("Payloads")
BYTES = "application/octet-stream"


@routes.post(
    "/v1/payloads",
    Action.SUBMIT,
    body=bytes,
    reads="bytes",
    media=("*/*",),
    body_limit="payload",
    answer=PayloadStored,
    status=201,
    problems=(409,),
)
async def create_payload(call: Call) -> PayloadStored:
    """Store an encrypted payload. Jobs refer to it by `payload_ref`."""
    payload_id = new_id()
    await call.service.sealer.ready()
    sealed = call.service.sealer.seal(call.body, belongs_to=payload_owner(call.tenant_id, payload_id))
    await call.service.store.payloads.put_payload(call.tenant_id, payload_id, sealed)
    return PayloadStored(show("pay", payload_id), len(call.body))


@routes.get("/v1/payloads/{payload_id}", Action.READ, answers_with=BYTES, problems=(409,))
async def get_payload(call: Call) -> Reply:
    """Read a payload of this tenant."""
    payload_id = call.identity("pay", "payload_id")
    sealed = await call.service.store.payloads.payload(call.tenant_id, payload_id)
    return await _opened(call, payload_id, sealed)


@routes.delete("/v1/payloads/{payload_id}", Action.ERASE, answer=Deleted)
async def erase_payload(call: Call) -> Deleted:
    """Delete a payload, also if jobs refer to it."""
    payload_id = call.identity("pay", "payload_id")
    await call.service.store.payloads.drop_payload(call.tenant_id, payload_id)
    await call.act("payloads.erase", show("pay", payload_id))
    return Deleted()


@routes.get(
    "/v1/workers/{worker_id}/payloads/{payload_id}", Action.WORK, **SESSION, answers_with=BYTES, problems=(409,)
)
async def get_held_payload(call: Call) -> Reply:
    """Read the payload of a run that this worker holds."""
    payload_id = call.identity("pay", "payload_id")
    tenant_id, sealed = await call.service.store.payloads.held_payload(session_of(call).id, payload_id)
    if tenant_id != call.tenant_id:
        raise NotFound(f"the payload {show('pay', payload_id)} does not exist")
    return await _opened(call, payload_id, sealed)


async def _opened(call: Call, payload_id: UUID, sealed: bytes) -> Reply:
    sealer = call.service.sealer
    await sealer.learn([sealed])
    return Reply(content=sealer.open(sealed, belongs_to=payload_owner(call.tenant_id, payload_id)), media=BYTES)
