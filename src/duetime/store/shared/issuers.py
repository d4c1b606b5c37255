"""Issuers of tokens."""

from duetime.errors import NotFound
from duetime.ids import new_id
from duetime.model.issuer import Issuer, StoredIssuer, decode_issuer, encode_issuer
from duetime.store.rules.job_rows import from_row
from duetime.store.shared.transaction import SharedRole


class IssuerRole(SharedRole):
    async def put_issuer(self, tenant_id: int, issuer: Issuer) -> StoredIssuer:
        wanted = {"tenant_id": tenant_id, "name": issuer.name, "body": encode_issuer(issuer), "id": new_id()}
        await self.transactions.execute("put_issuer", **wanted)
        return await self.issuer(tenant_id, issuer.name)

    async def issuers(self, tenant_id: int, name: str | None = None) -> list[StoredIssuer]:
        rows = await self.transactions.rows("list_issuers", tenant_id=tenant_id, name=name)
        return [from_row(StoredIssuer, row, issuer=decode_issuer(row["body"])) for row in rows]

    async def issuer(self, tenant_id: int, name: str) -> StoredIssuer:
        found = await self.issuers(tenant_id, name)
        if not found:
            raise _missing(name)
        return found[0]

    async def delete_issuer(self, tenant_id: int, name: str) -> None:
        if not await self.transactions.execute("delete_issuer", tenant_id=tenant_id, name=name):
            raise _missing(name)


def _missing(name: str) -> NotFound:
    return NotFound(f"there is no issuer {name!r}", field="issuer", remedy="GET /v1/issuers lists them")
