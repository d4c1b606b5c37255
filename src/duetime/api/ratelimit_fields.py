"""The response headers `RateLimit-Policy`, `RateLimit` and `Retry-After`.

As in draft-ietf-httpapi-ratelimit-headers: a policy has a name, a quota `q` and a window `w`; its state has the
remaining quota (`r`) and the seconds until all of it is available again (`t`).
"""

import math


class Standings:
    """The state of each policy that a request counts against."""

    def __init__(self) -> None:
        self._policies: list[str] = []
        self._standings: list[str] = []

    def add_rate(self, policy: str, rate: float, size: float, left: float) -> None:
        """A quota that refills at a rate, up to a size."""
        window = max(1, math.ceil(size / rate))
        self._policies.append(f'"{policy}";q={max(1, int(size))};w={window}')
        self._standings.append(f'"{policy}";r={max(0, int(left))};t={max(0, math.ceil((size - left) / rate))}')

    def add_at_once(self, policy: str, most: int, left: int) -> None:
        """A limit on what is open at once."""
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
