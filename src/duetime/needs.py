"""What a job waits for, as a Python developer writes it."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec

from duetime.engine.graphs import NeedName, OnName, OtherwiseName, chain_after, make_depends_on, make_rule
from duetime.errors import InvalidInput
from duetime.identity import JobLike, job_identity
from duetime.model.dependency import DependsOn, Rule
from duetime.model.schedule import After
from duetime.receipt import Receipt


class Needs(msgspec.Struct, frozen=True):
    """What a job waits for, where that is not simply the success of all its parents.

    `need`: "all" parents or "any" of them must end as `on` says: with "success", or "finished" in any way. `otherwise`
    is what becomes of it when that cannot be any more: "cancel" it, or "run" it all the same.
    """

    parents: Sequence[JobLike]
    """Jobs, or the names of nodes in a graph."""
    need: NeedName = "all"
    on: OnName = "success"
    otherwise: OtherwiseName = "cancel"


def read_depends_on(given: object) -> DependsOn | None:
    """What a job waits for: jobs, or `Needs`."""
    parents, rule = read_needs(given)
    return make_depends_on([job_identity(parent) for parent in parents], rule)


def read_after(after: object, policies: Mapping[str, object]) -> After:
    """The job that another runs after, or `{"job": …, "on": "success", "failure" or "any"}`."""
    if isinstance(after, Mapping):
        unknown = sorted(after.keys() - {"job", "on"})
        if unknown or "job" not in after:
            raise InvalidInput("names a job, and how its runs end", field="after", remedy="{'job': …, 'on': 'success'}")
        return chain_after(job_identity(after["job"]), after.get("on", "success"), policies=policies)
    if not isinstance(after, Receipt | str | UUID):
        raise InvalidInput(f"{after!r} is not a job", field="after", remedy="a receipt or an id")
    return chain_after(job_identity(after), "success", policies=policies)


def read_needs(given: object) -> tuple[Sequence[JobLike], Rule]:
    """The parents, and by which rule they are waited for."""
    if isinstance(given, Needs):
        return list(given.parents), make_rule(given.need, given.on, given.otherwise)
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidInput(f"{given!r} is not a list of jobs", field="depends_on", remedy="a list, or duetime.Needs(…)")
    return list(given), Rule()
