"""An answer that is lost: a method of a store does what it was asked, and says that the database is away."""

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import pytest

from chaos.real.lies import methods, places
from duetime.errors import StoreUnavailable
from duetime.store.protocol.store import Store


class Lie:
    """Told once, by one method of one store. With `happens` false it is none: nothing was done."""

    def __init__(self, store: Store, name: str, *, happens: bool = True) -> None:
        self.told = False
        self.calls = 0
        self._happens = happens
        self._name = name
        role = getattr(store, methods()[name])
        self._real = getattr(role, name)
        setattr(role, name, self._method)

    async def _method(self, *args: Any, **options: Any) -> Any:
        self.calls += 1
        if self.told:
            return await self._real(*args, **options)
        if self._happens:
            await self._real(*args, **options)
        self.told = True
        raise StoreUnavailable(f"{self._name}: its caller must not know whether it took effect")


class Lies:
    """A method does what it was asked, and says that the database is away: the first time, the third, and then one time
    in twenty."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.told: Counter[str] = Counter()
        self.over = False

    def corrupt(self, monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
        for place, name in places(store):
            monkeypatch.setattr(place, name, self._lying(name, vars(place)[name]))

    def _lying(self, name: str, real: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @wraps(real)
        async def method(*args: Any, **options: Any) -> Any:
            result = await real(*args, **options)
            self.calls[name] += 1
            if not self.over and (self.calls[name] in (1, 3) or self.calls[name] % 20 == 0):
                self.told[name] += 1
                raise StoreUnavailable(f"{name} took effect, and its caller must not know it")
            return result

        return method
