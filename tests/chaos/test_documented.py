"""docs/reliability.md names every fault, every scenario and every promise."""

from pathlib import Path

import pytest

from chaos.checker import PROMISES
from chaos.real.faults import KINDS
from chaos.scenarios import SCENARIOS

TEXT = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text()


@pytest.mark.parametrize("name", [*KINDS, *SCENARIOS, *PROMISES])
def test_it_is_documented(name: str) -> None:
    assert name.removesuffix(" (blind to ids)") in TEXT
