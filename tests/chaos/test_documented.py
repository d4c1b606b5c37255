"""docs/reliability.md has a row for every fault, every scenario and every promise."""

import re
from pathlib import Path

import pytest

from chaos.checker import PROMISES
from chaos.real.faults import KNOWN
from chaos.scenarios import SCENARIOS

TEXT = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text()
NAMED = [
    *(("fault", name) for name in KNOWN),
    *(("scenario", name) for name in SCENARIOS),
    *(("the checker's words", name.removesuffix(" (blind to ids)")) for name in PROMISES),
]


def first_cells(heading: str) -> set[str]:
    """What stands in the first column under this heading; a row may be for several names, with commas between."""
    tables = re.findall(rf"^\| {re.escape(heading)} \|.*\n\| ---.*\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    cells = [row.split("|")[1].strip() for table in tables for row in table.splitlines()]
    return {*cells, *(part.strip("`") for cell in cells for part in cell.split(", "))}


@pytest.mark.parametrize(("heading", "name"), dict.fromkeys(NAMED))
def test_it_is_documented(heading: str, name: str) -> None:
    assert name in first_cells(heading)
