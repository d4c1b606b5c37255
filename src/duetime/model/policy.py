"""Policies of a recurring job: what happens to missed occurrences, and to those that meet a running run."""

from sys import float_info
from typing import Any, Literal

import msgspec

from duetime.errors import InvalidInput, not_a_choice

MisfireMode = Literal["skip", "latest", "all"]
Overlap = Literal["allow", "skip", "queue", "replace"]

OVERLAPS: tuple[Overlap, ...] = ("allow", "skip", "queue", "replace")
_MODES: tuple[MisfireMode, ...] = ("skip", "latest", "all")
MOST_CAUGHT_UP = 1000


class Misfire(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happens to occurrences that no node fired in time (everything was down, or the job was paused).

    `latest`: one run for any number of them, due at the latest. `skip`: none, if even the latest is later than `after`.
    `all`: a run for each, the newest `most` of them that are not older than `age`.
    """

    mode: MisfireMode = "latest"
    after: float = 60.0
    """Seconds: how late an occurrence may be and still run under `skip`."""
    most: int = 100
    age: float = 86_400.0
    """Seconds: older occurrences are not caught up under `all`."""


def make_misfire(value: object) -> Misfire:
    """A policy from its name, or as it is; refuses invalid ones."""
    if isinstance(value, str):
        if value not in _MODES:
            raise not_a_choice(value, _MODES, "misfire")
        return Misfire(value)
    if not isinstance(value, Misfire):
        raise InvalidInput(f"must be text or a Misfire, not {type(value).__name__}", field="misfire")
    if value.mode not in _MODES:
        raise not_a_choice(value.mode, _MODES, "misfire.mode")
    if type(value.most) is not int or not 1 <= value.most <= MOST_CAUGHT_UP:
        raise InvalidInput("is out of range", field="misfire.most", remedy=f"1 to {MOST_CAUGHT_UP}")
    if not (is_amount(value.after) and is_amount(value.age) and value.age > 0):
        raise InvalidInput(
            "after and age must be finite seconds", field="misfire", remedy="after: 0 or more; age: more than 0"
        )
    return value


def is_amount(value: Any) -> bool:
    """Whether this is a number that is read back as it is stored: an infinite one would make all options unreadable."""
    return type(value) in (int, float) and 0 <= value <= float_info.max


def make_overlap(value: object) -> Overlap:
    if value not in OVERLAPS:
        raise not_a_choice(value, OVERLAPS, "overlap")
    return value
