"""`H` in a cron line: a value that differs from job to job and stays the same for each of them.

A thousand jobs with `0 0 * * *` start at one moment; with `H H * * *` they are spread over the day. The value is
computed from the job's `key`, or from its id if it has none, and written into the line when the job is stored.

    H            any value of the field; as day of month 1 to 28, which every month has
    H(0-7)       any value from 0 to 7
    H/15         every 15, from a start that differs
    H(0-29)/10   every 10 within the range, from a start that differs
"""

import re
from functools import lru_cache
from hashlib import blake2b

from duetime.errors import InvalidInput
from duetime.model.schedule.cron_field import DAY_OF_MONTH, DAY_OF_WEEK, HOUR, MINUTE, MONTH, SECOND, YEAR, Kind

_HASHED = re.compile(r"H(?:\(([0-9]{1,2})-([0-9]{1,2})\))?(?:/([0-9]{1,2}))?")
_HIGHEST = {DAY_OF_MONTH: 28}
_KINDS = (SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK, YEAR)


@lru_cache(maxsize=16_384)
def is_hashed(text: str) -> bool:
    """Whether a cron line has values that differ from job to job."""
    return any(part.startswith("H") for field in text.upper().split() for part in field.split(","))


def settled_line(text: str, seed: str) -> str:
    """The line with its values for this seed: plain cron. A line without `H` stays unchanged."""
    if not is_hashed(text):
        return text
    return "; ".join(_settled(line.split(), seed) for line in text.split(";"))


def _settled(fields: list[str], seed: str) -> str:
    kinds = _KINDS[1:] if len(fields) == 5 else _KINDS
    pairs = zip(kinds, fields, strict=False)
    return " ".join(",".join(_value(kind, part, seed) for part in field.split(",")) for kind, field in pairs)


def _value(kind: Kind, text: str, seed: str) -> str:
    if not text.upper().startswith("H"):
        return text
    match = _HASHED.fullmatch(text.upper())
    if kind is YEAR:
        raise InvalidInput(f"the year {text[:20]!r} is not a number", field="cron", remedy="H has no value for a year")
    if match is None:
        raise InvalidInput(
            f"the {kind.name} {text[:20]!r} is not known", field="cron", remedy="H, H(0-29), H/15 or H(0-29)/10"
        )
    low, high = kind.low, _HIGHEST.get(kind, kind.high)
    if match[1] is not None:
        low, high = int(match[1]), int(match[2])
    if not kind.low <= low <= high <= kind.high:
        raise InvalidInput(
            f"the {kind.name} {text[:20]} is out of range", field="cron", remedy=f"H({kind.low}-{kind.high})"
        )
    step = int(match[3] or 0)
    if match[3] is not None and not 1 <= step <= high - low + 1:
        raise InvalidInput(
            f"the {kind.name} step {step} is out of range (1 to {high - low + 1})", field="cron", remedy="such as H/15"
        )
    digest = blake2b(f"{kind.name} {seed}".encode(), digest_size=8).digest()
    number = int.from_bytes(digest, "big")
    if not step:
        return str(low + number % (high - low + 1))
    start = low + number % step
    return f"{start}-{high}/{step}" if start < high else str(start)
