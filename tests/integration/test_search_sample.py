"""A word of very many names is told by a sample of the terms: the index would read all entries of it first."""

from collections.abc import AsyncIterator, Sequence
from typing import cast

import pytest

from duetime.model.search import grams
from duetime.store.postgres import PostgresStore
from duetime.store.shared.search import SearchRole, find_terms
from tests.contract.hands import STRANGER, TENANT
from tests.support.plans import PlanLog, explained_database
from tests.support.postgres import Server
from tests.support.stores import filled

TERMS, MOST = 20_000, 100
# The groups of `customer 7`, which all names have, and for each name a group of its own.
_FILL = f"""
insert into duetime.terms (tenant_id, kind, value, grams)
select t.tenant_id, 'n', 'customer 7' || n, duetime.grams_of(t.tenant_id, '{chr(31).join(grams("customer 7"))}')
    || duetime.grams_of(t.tenant_id, '#' || n)
from generate_series(1, {TERMS}) n cross join lateral (select case when n % 1000 = 0 then {STRANGER} else {TENANT} end
    as tenant_id) t;
insert into duetime.terms (tenant_id, kind, value, grams)
values ({TENANT}, 'n', 'rare', duetime.grams_of({TENANT}, '{chr(31).join(grams("rare"))}'));
"""


@pytest.fixture
async def store(postgres: Server) -> AsyncIterator[PostgresStore]:
    with explained_database(postgres) as dsn:
        async with filled(dsn, _FILL, "vacuum analyze duetime.terms") as store:
            yield store


async def found(store: PostgresStore, tenant_id: int, text: str) -> Sequence[tuple[str, str]] | None:
    transactions = cast(SearchRole, store.search).transactions
    return await transactions.reading(tenant_id).run(lambda on: find_terms(on, tenant_id, text, MOST))


async def test_a_word_of_very_many_names(store: PostgresStore, postgres: Server) -> None:
    log = PlanLog(postgres.folder / "log")
    assert await found(store, TENANT, "customer") is None
    plans = log.plans()
    assert any("Sample Scan on" in plan for plan in plans)
    assert not any("terms_by_gram" in plan for plan in plans)


async def test_other_words_and_tenants(store: PostgresStore) -> None:
    assert await found(store, TENANT, "rare") == [("n", "rare")]
    assert await found(store, TENANT, "unheard") == []
    assert len(await found(store, STRANGER, "customer") or ()) == TERMS // 1000, "in few of the terms of all tenants"
