"""Targets on a fresh database, once on each store."""

from collections.abc import AsyncIterator

import pytest

from tests.integration.conftest import database_url, migrated
from tests.support.receiver import Receiver, receiving
from tests.support.targeting import Targeting, targeting

__all__ = ["database_url", "migrated"]


@pytest.fixture
async def targets(database_url: str) -> AsyncIterator[Targeting]:
    async with targeting(database_url) as found:
        yield found


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as found:
        yield found
