"""What a remote worker needs of an HTTP client."""

from collections.abc import Mapping
from typing import Protocol, TypeVar

import msgspec

T = TypeVar("T")


class Wire(Protocol):
    async def open(self) -> None:
        """Make ready for use on this event loop."""

    async def close(self) -> None: ...

    def companion(self) -> "Wire":
        """The same for another event loop."""

    async def call(
        self,
        method: str,
        path: str,
        body: msgspec.Struct | None,
        answer: type[T],
        *,
        headers: Mapping[str, str] = {},
        patience: float = 30.0,
    ) -> T:
        """Ask once. Raises `StoreUnavailable` when there is no answer within `patience` or the server asks to try
        again, `NotFound`, `LeaseLost`, `InvalidInput` and `AccessDenied` as it says."""
