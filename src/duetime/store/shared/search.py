"""The search index: the distinct labels of each tenant, kept up to date off the hot path."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from duetime.model.search import folded, grams
from duetime.store.shared.transaction import Row, SharedRole, Transaction

_SEPARATOR = "\x1f"


class Term(NamedTuple):
    tenant_id: int
    kind: str
    value: str


class SearchRole(SharedRole):
    async def take_search(self, holder: UUID, period: timedelta) -> bytes | None:
        found: bytes | None = await self.transactions.value("take_search", holder=holder, period=period)
        return found

    async def keep_search(self, holder: UUID, body: bytes, period: timedelta) -> bool:
        return await self.transactions.execute("keep_search", holder=holder, body=body, period=period) > 0

    async def index_labels(self, after: UUID, before: UUID, batch: int) -> tuple[int, UUID | None]:
        async def work(transaction: Transaction) -> tuple[int, UUID | None]:
            rows = await transaction.rows("labels_above", after=after, before=before, batch=batch)
            terms = dict.fromkeys(_term(row) for row in rows)
            fields = ("tenant_id", "kind", "value", "folded", "grams")
            made = await transaction.compute(_rows, list(terms))
            await transaction.put("put_terms", fields, made)
            if len(rows) < batch:
                return len(rows), None
            # The labels of the last job may have been cut in two.
            last: UUID = rows[-1]["job_id"]
            return len(rows), UUID(int=last.int - 1)

        return await self.transactions.run(work)

    async def prune_terms(self, after: tuple[int, str, str], batch: int) -> tuple[int, str, str] | None:
        async def work(transaction: Transaction) -> tuple[int, str, str] | None:
            tenant_id, kind, value = after
            rows = await transaction.rows("terms_above", tenant_id=tenant_id, kind=kind, value=value, batch=batch)
            terms = [_term(row) for row in rows]
            await transaction.put("drop_terms", Term._fields, terms)
            return None if len(rows) < batch else terms[-1]

        return await self.transactions.run(work)


def _term(row: Row) -> Term:
    return Term(row["tenant_id"], row["kind"], row["value"])


def _rows(terms: Sequence[Term]) -> list[tuple[int, str, str, str, str]]:
    return [(*term, folded(term.value), _SEPARATOR.join(grams(term.value) or [folded(term.value)])) for term in terms]


async def find_terms(transaction: Transaction, tenant_id: int, text: str, most: int) -> list[tuple[str, str]] | None:
    """The labels that contain a text; None if there are more."""
    parts = grams(text)
    phrases = " ".join('"' + part.replace('"', '""') + '"' for part in parts)
    rows = await transaction.rows(
        "find_terms", tenant_id=tenant_id, grams=_SEPARATOR.join(parts), phrases=phrases, most=most + 1
    )
    if len(rows) > most or (rows and rows[0]["kind"] is None):
        return None
    wanted = folded(text)
    return [(row["kind"], row["value"]) for row in rows if wanted in folded(row["value"])]
