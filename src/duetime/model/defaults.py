"""Default options of a task or of a tenant: jobs get them unless the submission gives others, on every path.

They are stored as they were given, as a JSON object of options: the same number of retries means something else beside
another default policy, and an option that was given counts also where it equals the built-in default.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

Defaults: TypeAlias = bytes | None
"""The encoded object; None: nothing was given."""


def encode_defaults(given: Mapping[str, Any]) -> Defaults:
    return msgspec.json.encode(given, order="deterministic") if given else None


def decode_defaults(body: Defaults) -> dict[str, Any]:
    """Never raises: a row that newer code wrote must not stop submissions."""
    if body is None:
        return {}
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, ValueError):
        return {}
