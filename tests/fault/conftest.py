from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.fleet import Fleet, fleet_on


@pytest.fixture
async def fleet(database: str, tmp_path: Path) -> AsyncIterator[Fleet]:
    """Real duetime processes on a fresh PostgreSQL database."""
    async with fleet_on(database, tmp_path) as fleet:
        yield fleet
