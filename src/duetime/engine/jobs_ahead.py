"""What a forecast needs of a tenant: its jobs and its runs ahead, and whether it may store more."""

from datetime import datetime, timedelta

import msgspec

from duetime.model.overview import Ahead
from duetime.store.protocol.store import Store


async def read_ahead(store: Store, tenant_id: int, start: datetime, step: timedelta, steps: int) -> Ahead:
    ahead = await store.figures.ahead(tenant_id, start, step, steps)
    most = ahead.stored_jobs
    if most is None or not any(job.recurring for job in ahead.jobs):
        return ahead
    return msgspec.structs.replace(ahead, is_full=await store.tenants.usage(tenant_id, "stored_jobs", most) >= most)
