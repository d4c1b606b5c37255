"""Health, readiness and metrics of the server."""

import asyncio
import logging
import os

from duetime.api.call import Call
from duetime.api.endpoint import Reply, Routes
from duetime.api.problems import RETRY_SOON, UNAVAILABLE, Problem
from duetime.errors import StoreError, reason_of
from duetime.ids import new_id
from duetime.model.access import Action
from duetime.model.job import INTERNAL_TENANT
from duetime.store.protocol.store import Store
from duetime.telemetry.exposition import MEDIA
from duetime.wire.service import Health

log = logging.getLogger("duetime.api")

routes = Routes("Health")
_TIMEOUT = 2.0
_PROBE = 16 * 1024
"""Bytes: enough that a full disk is noticed."""


@routes.get("/livez", None, answer=Health)
async def livez(call: Call) -> Health:
    """The server responds."""
    return Health("ok")


@routes.get("/readyz", None, answer=Health, problems=(503,))
async def readyz(call: Call) -> Health:
    """The database is available and writable, and its schema is one that this server supports."""
    service = call.service
    try:
        async with asyncio.timeout(_TIMEOUT):
            await service.store.check_schema()
            if service.seen_writable.get(True) is None:
                await _write(service.store)
                service.seen_writable.put(True, True)
    except TimeoutError:
        raise Problem(UNAVAILABLE, "the database does not respond", headers={"retry-after": "1"}) from None
    return Health("ok")


async def _write(store: Store) -> None:
    """Write some bytes and remove them. On a full disk, and when it is read-only, a database still answers queries."""
    payload_id = new_id()
    try:
        await store.payloads.put_payload(INTERNAL_TENANT, payload_id, os.urandom(_PROBE))
        await store.payloads.drop_payload(INTERNAL_TENANT, payload_id)
    except StoreError as error:
        log.warning("not ready: the database is not writable: %s", reason_of(error))
        raise Problem(
            UNAVAILABLE,
            "the database is not writable",
            remedy="see the server's log: the disk may be full, or the database is read-only",
            headers={"retry-after": RETRY_SOON},
        ) from None


@routes.get("/metrics", Action.MANAGE_TENANTS, answers_with=MEDIA)
async def metrics(call: Call) -> Reply:
    """Read the metrics of this node for Prometheus. Needs a root key; `metrics_port` serves them without one."""
    return Reply(content=call.service.metrics.render(), media=MEDIA)
