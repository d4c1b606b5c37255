"""How a wrapper replaces methods of a role.

A wrapper is a class with some methods of a role. Each of them calls the role behind it through its typed protocol, so
mypy reports a method that was renamed there. A wrapped store is a copy of the store in which single roles are replaced:
`wrapped(store, observer, claims=ObservedClaims)`.
"""

import copy
from collections.abc import Callable
from typing import Any, TypeVar, cast

from duetime.store.protocol.store import Store

R = TypeVar("R")
S = TypeVar("S", bound=Store)


class _Overlay:
    def __init__(self, inner: object, over: object) -> None:
        # Attributes of the object itself: a call costs one look-up, however many wrappers there are.
        for role in (inner, over):
            self.__dict__.update({name: getattr(role, name) for name in methods(role)})


def wrapped(store: S, context: object, **wrappers: Callable[[Any, Any], object]) -> S:
    """A copy of the store in which these roles are wrapped; each wrapper gets the role behind it and the context."""
    made = copy.copy(store)
    for name, wrapper in wrappers.items():
        role = getattr(store, name)
        setattr(made, name, overlay(role, wrapper(role, context)))
    return made


def overlay(inner: R, over: object) -> R:
    """The role `inner` with the methods of `over` in place of its own. Raises `TypeError` for one that it lacks."""
    missing = set(methods(over)) - set(methods(inner))
    if missing:
        raise TypeError(f"{type(over).__name__} replaces methods that the role does not have: {', '.join(missing)}")
    return cast(R, _Overlay(inner, over))


def methods(role: object) -> list[str]:
    """The public methods of a role or of a wrapper."""
    return [name for name in dir(role) if not name.startswith("_") and callable(getattr(role, name))]
