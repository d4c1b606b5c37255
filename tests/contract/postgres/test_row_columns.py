"""Rows that are read by position have the columns that the code expects."""

import asyncpg
import pytest

from duetime.model.attempt import Claimed
from duetime.store.postgres.database import SQL
from duetime.store.postgres.row_columns import BY_POSITION, LANE_ID, READY


@pytest.mark.parametrize("statement", BY_POSITION)
async def test_a_statement_returns_the_columns_in_the_order_of_the_fields(
    session: "asyncpg.Connection[asyncpg.Record]", store: object, statement: str
) -> None:
    prepared = await session.prepare(SQL[statement])
    assert tuple(column.name for column in prepared.get_attributes()) == BY_POSITION[statement]


def test_the_rows_of_a_claim_fill_all_fields_but_those_of_decryption() -> None:
    fields = Claimed.__struct_fields__
    assert BY_POSITION["claim"] + ("args_problem", "key_unknown") == fields
    assert (fields[LANE_ID], fields[READY]) == ("lane_id", "ready")
