"""What a caller is told of its limits: the fields `RateLimit-Policy` and `RateLimit`, and `Retry-After`.

As draft-ietf-httpapi-ratelimit-headers has them: a policy has a name, a quota `q` and the window `w` in which it comes
back; beside it stand what remains (`r`) and the seconds until all of it is there again (`t`).
"""

import math


class Standings:
    """How a caller stands to each policy that its request counts against."""

    def __init__(self) -> None:
        self._policies: list[str] = []
        self._standings: list[str] = []

    def add_rate(self, policy: str, rate: float, size: float, left: float) -> None:
        """Something that comes back at a rate, up to a size."""
        window = max(1, math.ceil(size / rate))
        self._policies.append(f'"{policy}";q={max(1, int(size))};w={window}')
        self._standings.append(f'"{policy}";r={max(0, int(left))};t={max(0, math.ceil((size - left) / rate))}')

    def add_at_once(self, policy: str, most: int, left: int) -> None:
        """Something that many may have open at once."""
        self._policies.append(f'"{policy}";q={most};qu="concurrent-requests"')
        self._standings.append(f'"{policy}";r={max(0, left)}')

    def fields(self, wait: float | None = None) -> dict[str, str]:
        """The response headers; with `wait`, those of a refusal."""
        found = {}
        if self._policies:
            found = {"ratelimit-policy": ", ".join(self._policies), "ratelimit": ", ".join(self._standings)}
        if wait is not None:
            found["retry-after"] = str(max(1, math.ceil(wait)))
        return found
