"""Objects that a forked child inherits from its parent.

A child has all objects of its parent and none of its threads: a call that waits for such a thread waits forever, and a
lock that it held is never released. Servers that load an app before they fork (`gunicorn --preload`) and
`multiprocessing` create such children. So every object with threads, locks or connections starts over in a child.

The inherited state is kept there and never touched. Closing an event loop, a connection or a file of the parent would
affect the parent: they share the same sockets and selectors.
"""

import os
from typing import Protocol
from weakref import WeakSet


class ResetAfterFork(Protocol):
    def begin_anew(self) -> object:
        """Drop all state that belongs to the parent, and return it."""


_known: WeakSet[ResetAfterFork] = WeakSet()
_inherited: list[object] = []


def reset_in_children(thing: ResetAfterFork) -> None:
    """Call `begin_anew` of this object in each child that is forked while it exists."""
    _known.add(thing)


def _in_child() -> None:
    _inherited.extend([thing.begin_anew() for thing in list(_known)])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
