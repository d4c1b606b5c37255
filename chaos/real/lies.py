"""Success seen as error: a store method does what it was asked, and its caller is told that the database is away.

Every process looks into one file for the share of successes that it shall see as errors, at every method of the store;
each lie is written down among the faults.
"""

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

from chaos.history import Writer
from chaos.real.environment import LIES
from duetime.errors import StoreUnavailable
from duetime.store.postgres import PostgresStore
from duetime.store.protocol.store import Store

_TRUTHFUL = frozenset({"open", "close", "migrate", "check_schema"})
"""Without these there is no store to lie about."""
_LOOK_EVERY = 0.1


def methods() -> list[str]:
    """Every method that asks something of the database."""
    names = {name for role in Store.__mro__ for name in vars(role) if not name.startswith("_")}
    return sorted(name for name in names - _TRUTHFUL if inspect.iscoroutinefunction(getattr(PostgresStore, name, None)))


class Liar:
    """Lies at the rate that its file says, which may change."""

    def __init__(self, writer: Writer, random: Random, file: Path) -> None:
        self._writer = writer
        self._random = random
        self._file = file
        self._rate = 0.0
        self._looked_at = float("-inf")

    @property
    def rate(self) -> float:
        now = monotonic()
        if now >= self._looked_at + _LOOK_EVERY:
            self._looked_at = now
            self._rate = float(self._file.read_text() or 0) if self._file.exists() else 0.0
        return self._rate

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
    file = os.environ.get(LIES)
    if file:
        Liar(writer, Random(os.getpid()), Path(file)).corrupt()
