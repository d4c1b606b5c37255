"""What a caller asks for, made a job: options are told from arguments, and everything is checked before anything is
stored."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from duetime.errors import InvalidInput
from duetime.model import json
from duetime.model.job import DEFAULT_TENANT, NewJob
from duetime.sdk.task import NAMES, RESERVED, Task
from duetime.spec.derived import OF_EDITS
from duetime.spec.resolved import Resolved
from duetime.targets.validation import TargetRules, unchecked


def make_job(
    task: Task[..., Any],
    resolved: Resolved,
    arguments: Mapping[str, Any],
    *,
    max_payload: int,
    job_id: UUID | None = None,
) -> NewJob:
    """A job ready to be stored; raises `InvalidInput` that names what cannot be accepted."""
    task.definition.check_args(arguments)
    body = json.encode(arguments, field="args", limit=max_payload)
    return resolved.job(DEFAULT_TENANT, task.name, body, job_id=job_id)


def make_target_job(
    rules: TargetRules | None,
    target: object,
    callback_url: str | None,
    resolved: Resolved,
    arguments: Mapping[str, Any],
    *,
    max_payload: int,
) -> NewJob:
    """A job with a target, ready to be stored; without rules, for a server to store that has its own."""
    if target is None and callback_url is None:
        raise InvalidInput(
            "`task` or `target` is required", field="task", remedy="give a task, target= or callback_url="
        )
    made = (unchecked if rules is None else rules.make)(target, callback_url, arguments)
    body = json.encode(made.args, field="args", limit=max_payload)
    return resolved.job(DEFAULT_TENANT, made.task, body)


def check_no_target(target: object, callback_url: str | None) -> None:
    if target is not None or callback_url is not None:
        raise InvalidInput("`task` and `target` exclude each other", field="target", remedy="give one of them")


def check_mapping(value: object, field: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(
            f"must be a dict of arguments by name, not {type(value).__name__}", field=field, remedy="such as {'to': 1}"
        )
    return dict(value)


def split_options(
    given: Mapping[str, Any], args: object, allowed: Mapping[str, object]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options and arguments, apart."""
    options, arguments = {}, {}
    for name, value in given.items():
        if name not in RESERVED:
            arguments[name] = value
        elif (option := NAMES.get(name, name)) in allowed:
            options[option] = value
        elif value is not None:
            raise InvalidInput(
                "cannot be given here",
                field=name,
                remedy="submit takes run_at, run_in, when; schedule takes cron, rrule, every, when and their bounds",
            )
    if args is not None:
        if arguments:
            raise InvalidInput("pass arguments by name or as args=, not both", field=f"args.{next(iter(arguments))}")
        arguments = check_mapping(args, "args")
    return options, arguments


def edit_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options by the names that they have in a job."""
    unknown = sorted(given.keys() - RESERVED - OF_EDITS.keys())
    if unknown:
        raise InvalidInput("cannot be edited", field=unknown[0], remedy="arguments of the task go into args={…}")
    return {NAMES.get(name, name): value for name, value in given.items()}
