"""Objects that a forked child has from its parent.

A child has all objects of its parent and none of its threads: what waits for one of those waits for ever, and a lock
that one of them held is never freed. Servers that load an app before they fork (`gunicorn --preload`) and
`multiprocessing` make such children. So whatever has threads, locks or connections begins anew in a child.

What it had is kept there and never touched. To close an event loop, a connection or a file of the parent would act on
the parent: they share the same sockets and the same selectors.
"""

import os
from typing import Protocol
from weakref import WeakSet


class ResetAfterFork(Protocol):
    def begin_anew(self) -> object:
        """Forget all that belongs to the parent; returns it."""


_known: WeakSet[ResetAfterFork] = WeakSet()
_inherited: list[object] = []


def reset_in_children(thing: ResetAfterFork) -> None:
    """Let this begin anew in each child that is forked while it exists."""
    _known.add(thing)


def _in_child() -> None:
    _inherited.extend([thing.begin_anew() for thing in list(_known)])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
