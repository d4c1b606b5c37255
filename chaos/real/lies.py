"""Success seen as error: a store method does what it was asked, and its caller is told that the database is away.

A process lies at the rate that `DUETIME_TEST_CHAOS_LIES` gives, at every method of the store; how often, at which, it
writes down among the faults.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from random import Random
from time import monotonic
from typing import Any

from chaos.history import Writer
from chaos.real.environment import LIES
from duetime.errors import StoreUnavailable
from duetime.store import protocol
from duetime.store.postgres import PostgresStore

_TRUTHFUL = frozenset({"open", "close", "migrate", "check_schema", "listen", "companion"})
"""Without these there is no store to lie about."""


def methods() -> list[str]:
    """Every method through which work is asked for."""
    roles = [
        role for role in vars(protocol).values() if isinstance(role, type) and role.__module__ == protocol.__name__
    ]
    names = {name for role in roles if getattr(role, "_is_protocol", False) for name in vars(role)}
    return sorted(name for name in names - _TRUTHFUL if not name.startswith("_") and hasattr(PostgresStore, name))


class Liar:
    """Lies at `rate`, which may change."""

    def __init__(self, writer: Writer, random: Random, rate: float = 0.0) -> None:
        self.rate = rate
        self._writer = writer
        self._random = random

    def corrupt(self, store: type = PostgresStore) -> None:
        """Make every method of this kind of store lie, in this process."""
        for name in methods():
            setattr(store, name, self._lying(name, getattr(store, name)))

    @contextmanager
    def corrupting(self, store: type = PostgresStore) -> Iterator[None]:
        """The same for a while."""
        honest = {name: getattr(store, name) for name in methods()}
        self.corrupt(store)
        try:
            yield
        finally:
            for name, method in honest.items():
                setattr(store, name, method)

    def _lying(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(real)
        async def method(*args: Any, **options: Any) -> Any:
            result = await real(*args, **options)
            if self._random.random() < self.rate:
                now = monotonic()
                self._writer.write("faults", {"kind": f"lie: {name}", "t": now, "until": now})
                raise StoreUnavailable(f"{name} has happened, and you shall not know it")
            return result

        return method


def lie_if_asked(writer: Writer) -> None:
    rate = float(os.environ.get(LIES, "0"))
    if rate:
        Liar(writer, Random(os.getpid()), rate).corrupt()
