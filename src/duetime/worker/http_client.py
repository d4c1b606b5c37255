"""The interface of the HTTP client that a remote worker needs."""

from collections.abc import Mapping
from typing import Protocol, TypeVar

import msgspec

T = TypeVar("T")


class Wire(Protocol):
    async def open(self) -> None:
        """Prepare for use on this event loop."""

    async def close(self) -> None: ...

    def companion(self) -> "Wire":
        """The same client for another event loop."""

    async def call(
        self,
        method: str,
        path: str,
        body: msgspec.Struct | None,
        answer: type[T],
        *,
        headers: Mapping[str, str] = {},
        timeout: float = 30.0,
    ) -> T:
        """Send one request. Raises `StoreUnavailable` when there is no answer within `timeout` seconds or the server
        asks to retry; `NotFound`, `LeaseLost`, `InvalidInput` and `AccessDenied` as the server answers."""
