"""A short slice of `python -m chaos run --scenario limits`: limits hold while worker processes are killed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from chaos.real import limits


async def test_limits_are_never_exceeded_and_never_leak(database: str, tmp_path: Path) -> None:
    outcome = await limits.run(database, tmp_path, seed=3, runs=600, workers=3, kill_every=1.5)
    assert outcome.holds, f"{outcome}\n{(tmp_path / 'processes.log').read_text()[-3000:]}"
    assert outcome.runs == 800


def test_what_overlaps_is_counted() -> None:
    start = datetime(2026, 3, 2, tzinfo=UTC)

    def between(begin: float, end: float) -> tuple[datetime, datetime]:
        return start + timedelta(seconds=begin), start + timedelta(seconds=end)

    assert limits.most_at_once([between(0, 1), between(1, 2), between(2, 3)]) == 1
    assert limits.most_at_once([between(0, 2), between(1, 3), between(1.5, 1.6)]) == 3
