"""What counts as growth, and what a load has to show."""

import pytest

from chaos.real.load import Load
from chaos.real.sampling import grown


@pytest.mark.parametrize(
    ("name", "values", "flat"),
    [
        ("worker-0 memory, MB", [50.0] * 10 + [60.0] * 30, True),
        ("worker-0 memory, MB", [50.0 + place for place in range(40)], False),
        ("worker-0 open, files", [20.0] * 30 + [21.0] * 10, True),
        ("worker-0 open, files", [20.0] * 30 + [30.0] * 10, False),
        ("table claims, kB", [16.0] * 20 + [64.0] * 20, True),
        ("table runs, kB", [8000.0] * 20 + [9000.0] * 20, False),
        ("database, connections", [10.0, 10.0], True),
    ],
)
def test_flat_means_the_last_quarter_is_as_the_second(name: str, values: list[float], flat: bool) -> None:
    assert (grown({name: values}) == []) is flat


def test_what_a_load_has_to_show() -> None:
    good = {"capacity": 160.0, "offered": 800.0, "done during": 150.0, "normal after": 45.0}
    held = Load(60.0, 100.0, held=True, rush_before=1000.0, rush_after=800.0, overload=good)
    assert held.broken() == []
    held.rush_after = 700.0
    assert len(held.broken()) == 1
    held.overload = {**good, "done during": 20.0, "normal after": 90.0}
    assert len(held.broken()) == 3
    growing = Load(60.0, 100.0, held=False, series={"table runs, kB": [float(n) for n in range(1000, 9000, 100)]})
    growing.overload = good
    assert growing.broken() == ["not flat: table runs, kB: 3950.0 → 7950.0"]
