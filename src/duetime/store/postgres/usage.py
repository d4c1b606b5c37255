"""A tenant's usage of its quotas, counted up to a bound."""

from duetime.store.postgres.role import Role

_COUNTS = {
    "stored_jobs": "count_jobs",
    "stored_bytes": "count_bytes",
    "idempotency_keys": "count_keys",
    "graphs": "count_graphs",
}


class UsageRole(Role):
    async def usage(self, tenant_id: int, kind: str, most: int) -> int:
        count: int = await self.transactions.value(_COUNTS[kind], tenant_id=tenant_id, most=most)
        return min(most, count)
