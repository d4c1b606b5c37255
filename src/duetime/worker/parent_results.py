"""The results of the runs that a run depended on, by the task that returned them."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from duetime.errors import InvalidInput, NotFound, RunCancelled, RunFailed
from duetime.ids import show
from duetime.model.dependency import Parent
from duetime.model.run import RunState

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class Returning(Protocol[R_co]):
    """The part of a task that is needed to decode its results."""

    @property
    def name(self) -> str: ...

    def read_result(self, body: bytes | None) -> R_co: ...


def find_result(parents: Sequence[Parent], task: Returning[R], node: str | None) -> R:
    """What the parent that ran this task returned. `node` is its name in the graph, if several parents ran it."""
    found = [each for each in parents if each.task == task.name and node in (None, each.name)]
    if not found:
        known = ", ".join(_shown(each) for each in parents) or "none"
        what = task.name if node is None else f"{task.name} as {node!r}"
        raise NotFound(f"no parent of this run ran {what}", field="task", remedy=f"its parents: {known}")
    if len(found) > 1:
        known = ", ".join(repr(each.name) for each in found if each.name is not None)
        raise InvalidInput(
            f"{len(found)} parents of this run ran {task.name}",
            field="node",
            remedy=f"name one of {known}" if known else "use parents()",
        )
    (parent,) = found
    if parent.state is RunState.SUCCEEDED:
        return task.read_result(parent.result)
    shown = _shown(parent) if parent.run_id is None else f"{show('run', parent.run_id)} of {task.name}"
    if parent.state is RunState.FAILED:
        raise RunFailed(f"{shown} failed: {parent.error}")
    ended = "has not ended" if parent.state is None else f"ended as {parent.state.name}"
    raise RunCancelled(f"{shown} {ended}: {parent.error or 'it has no result'}")


def _shown(parent: Parent) -> str:
    task = parent.task or show("job", parent.job_id)
    return task if parent.name is None else f"{parent.name} ({task})"
