from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.conftest import database_url, migrated
from tests.support.fleet import Fleet, fleet_on

__all__ = ["database_url", "migrated"]


@pytest.fixture
async def fleet(migrated: str, tmp_path: Path) -> AsyncIterator[Fleet]:
    """Real duetime processes on an empty PostgreSQL database."""
    async with fleet_on(migrated, tmp_path) as fleet:
        yield fleet
