"""Success seen as error: a store method does what it was asked, and its caller is told that the database is away.

Every process looks into one file for the share of successes that it must see as errors, at every method of the store;
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
from typing import Any, get_type_hints

from chaos.history import Writer
from chaos.real.environment import LIES
from duetime.errors import StoreUnavailable
from duetime.store.postgres import PostgresStore
from duetime.store.protocol.store import ROLES, Store

_TRUTHFUL = frozenset({"open", "close", "migrate", "check_schema"})
"""Without these there is no store to lie about."""
_LOOK_EVERY = 0.1


def methods() -> dict[str, str]:
    """Every method that asks something of the database, and the role that has it."""
    kinds = get_type_hints(Store)
    return {
        name: role
        for role in ROLES
        for name, _ in inspect.getmembers(kinds[role], inspect.iscoroutinefunction)
        if name not in _TRUTHFUL
    }


def places(store: Store) -> list[tuple[type, str]]:
    """The class in which each of these methods is written, for a store without wrappers."""
    return [
        (next(each for each in type(getattr(store, role)).__mro__ if name in vars(each)), name)
        for name, role in methods().items()
    ]


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

    def corrupt(self) -> None:
        """Make every method of PostgreSQL's store lie, in this process."""
        for place, name in places(PostgresStore("postgresql:///never-opened")):
            setattr(place, name, self._lying(name, getattr(place, name)))

    @contextmanager
    def corrupting(self) -> Iterator[None]:
        """The same for a while."""
        honest = [
            (place, name, vars(place)[name]) for place, name in places(PostgresStore("postgresql:///never-opened"))
        ]
        self.corrupt()
        try:
            yield
        finally:
            for place, name, method in honest:
                setattr(place, name, method)

    def _lying(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(real)
        async def method(*args: Any, **options: Any) -> Any:
            result = await real(*args, **options)
            if self._random.random() < self.rate:
                now = monotonic()
                self._writer.write("faults", {"kind": f"lie: {name}", "t": now, "until": now})
                raise StoreUnavailable(f"{name} took effect, and its caller must not know it")
            return result

        return method


def lie_if_asked(writer: Writer) -> None:
    file = os.environ.get(LIES)
    if file:
        Liar(writer, Random(os.getpid()), Path(file)).corrupt()
