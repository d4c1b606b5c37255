"""Statements whose rows the hot path reads by position, which costs less than reading them by name, and their columns.

A test compares these columns with those that the database returns.
"""

from collections.abc import Mapping

from duetime.model.attempt import Claimed
from duetime.model.lane import LaneKey
from duetime.model.limits import Scope
from duetime.store.rules.strays import Stray

_CLAIMED = Claimed.__struct_fields__[: Claimed.__struct_fields__.index("checkpoint") + 1]
"""What the database knows of a claimed run; the other fields have defaults."""
_LANE = LaneKey.__struct_fields__
LANE_ID, READY = _CLAIMED.index("lane_id"), _CLAIMED.index("ready")
"""The places of these columns in the row of a claimed run."""

BY_POSITION: Mapping[str, tuple[str, ...]] = {
    "claim": _CLAIMED,
    "claim_announced": _CLAIMED,
    "claim_many": ("worker_id", *_CLAIMED),
    "claimed_before": _CLAIMED,
    "claims_before": ("worker_id", *_CLAIMED),
    "runs_of_worker": _CLAIMED,
    "late_runs": _CLAIMED,
    "look": ("lane", "ready", "ids", "now", "oldest", "unborn"),
    "lanes_by_id": ("id", *_LANE),
    "find_lanes": ("id", "nonce", *_LANE),
    "find_homes": ("id", "nonce", *_LANE),
    "awake_lanes": ("id", "nonce", *_LANE),
    "lane_changes": ("turn", "nonce", "awake", "id", "nonce", *_LANE),
    "strays": Stray._fields,
    "hold_strays": Stray._fields,
    "hold_limits": ("id", *Scope._fields),
}
