"""The API on a fresh database, once on each store."""

from collections.abc import AsyncIterator

import pytest

from tests.integration.conftest import database_url, migrated
from tests.support.served import Served, served

__all__ = ["database_url", "migrated"]


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Served]:
    async with served(database_url) as found:
        yield found
