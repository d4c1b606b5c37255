"""Reads what a job waits for (`depends_on`) and what it runs after (`after`)."""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args
from uuid import UUID

import msgspec

from duetime.errors import InvalidInput, not_a_choice
from duetime.model.dependency import DependsOn, Need, Otherwise, Rule, Wanted
from duetime.model.schedule import After, make_after
from duetime.spec.bodies import AfterBody, DependsOnBody
from duetime.spec.identity import HasJobId, JobLike, job_identity

NeedName = Literal["all", "any"]
OnName = Literal["success", "finished"]
OtherwiseName = Literal["cancel", "run"]
MOST_PARENTS = 10_000


class Needs(msgspec.Struct, frozen=True):
    """The condition that a job waits for, where that is not simply the success of all its parents.

    `need`: "all" parents or "any" of them must end as `on` says: with "success", or "finished" in any way. `otherwise`
    applies when that is no longer possible: "cancel" the job, or "run" it anyway.
    """

    parents: Sequence[JobLike]
    """Jobs, or the names of nodes in a graph."""
    need: NeedName = "all"
    on: OnName = "success"
    otherwise: OtherwiseName = "cancel"


def read_depends_on(given: object) -> DependsOn | None:
    """Jobs, `Needs`, or either of them as JSON; None when no job is named."""
    if isinstance(given, Mapping):
        try:
            given = msgspec.convert(given, DependsOnBody)
        except msgspec.ValidationError as error:
            raise InvalidInput(str(error), field="depends_on", remedy='{"jobs": ["job_…"], "need": "all"}') from None
    if isinstance(given, DependsOnBody):
        given = Needs(given.jobs, given.need, given.on, given.otherwise)
    parents, rule = read_needs(given)
    return make_depends_on([_job(parent, "depends_on") for parent in parents], rule)


def read_needs(given: object) -> tuple[Sequence[JobLike], Rule]:
    """The parents, and the rule by which the job waits for them."""
    if isinstance(given, Needs):
        return list(given.parents), make_rule(given.need, given.on, given.otherwise)
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidInput(f"{given!r} is not a list of jobs", field="depends_on", remedy="a list, or duetime.Needs(…)")
    return list(given), Rule()


def make_rule(need: object, on: object, otherwise: object) -> Rule:
    for name, value, choices in (("need", need, NeedName), ("on", on, OnName), ("otherwise", otherwise, OtherwiseName)):
        if value not in get_args(choices):
            raise not_a_choice(value, get_args(choices), f"depends_on.{name}")
    return Rule(Need[str(need).upper()], Wanted[str(on).upper()], Otherwise[str(otherwise).upper()])


def make_depends_on(parents: Sequence[UUID], rule: Rule) -> DependsOn | None:
    """None when it names no parents."""
    found = tuple(dict.fromkeys(parents))
    if len(found) > MOST_PARENTS:
        raise InvalidInput(f"{len(found)} jobs are too many", field="depends_on", remedy=f"at most {MOST_PARENTS:,}")
    return DependsOn(found, rule) if found else None


def read_after(given: object) -> After:
    """The job that another runs after, or `{"job": …, "on": "success", "failure" or "any"}`."""
    if isinstance(given, AfterBody):
        return make_after(_job(given.job, "after"), given.on)
    if isinstance(given, Mapping):
        if given.keys() - {"job", "on"} or "job" not in given:
            raise InvalidInput(
                "must have `job`, and optionally `on`", field="after", remedy="{'job': …, 'on': 'success'}"
            )
        return make_after(_job(given["job"], "after"), given.get("on", "success"))
    if not isinstance(given, HasJobId | str | UUID):
        raise InvalidInput(f"{given!r} is not a job", field="after", remedy="a receipt or an id")
    return make_after(_job(given, "after"), "success")


def _job(given: JobLike, field: str) -> UUID:
    try:
        return job_identity(given)
    except InvalidInput as error:
        raise InvalidInput(error.message, field=field, remedy=error.remedy) from None
