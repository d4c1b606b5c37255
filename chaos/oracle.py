"""When recurring jobs should fire, worked out without the product: seconds since 1970, in UTC, and plain arithmetic."""

from collections.abc import Iterator


def fires(schedule: dict[str, float | str | None], start: float, end: float) -> Iterator[float]:
    """The fires of a schedule from `start` to `end`, both included."""
    step, first = _rhythm(schedule)
    number = max(0, -(-(start - first) // step)) if schedule.get("every") else -(-(start - first) // step)
    at = first + number * step
    while at <= end:
        yield at
        number += 1
        at = first + number * step


def _rhythm(schedule: dict[str, float | str | None]) -> tuple[float, float]:
    """How far apart fires are, and one of them (the first, for an interval)."""
    match schedule:
        case {"cron": "* * * * * *"}:
            return 1.0, 0.0
        case {"cron": "* * * * *"}:
            return 60.0, 0.0
        case {"cron": str(line)} if line.startswith("*/") and line.endswith(" * * * * *"):
            step = int(line[2:].split(" ", 1)[0])
            if 60 % step == 0:
                return float(step), 0.0
        case {"every": float(step), "start_at": float(first)}:
            return step, first
    raise ValueError(f"the oracle does not know {schedule}")
