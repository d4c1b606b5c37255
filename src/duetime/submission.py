"""What a caller asks for, made a job: options are told from arguments, and everything is checked before anything is
stored."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from duetime.engine.intake import prepare
from duetime.engine.options import Duration, add_policies, check_duration, check_tier, make_options
from duetime.errors import InvalidInput
from duetime.ids import new_id
from duetime.model import json
from duetime.model.defaults import NOTHING_SAID, Defaults
from duetime.model.job import NewJob, Said
from duetime.model.policy import Misfire, MisfireMode, Overlap
from duetime.model.schedule import Once, Schedule
from duetime.needs import read_depends_on
from duetime.targets.checking import TargetRules, unchecked
from duetime.task import RESERVED, Task

Policies = tuple[Misfire | MisfireMode | None, Overlap | None, Duration | None, int | None]
"""Misfire, overlap, jitter and the maximum count of a recurring job."""

OPTIONS = frozenset(
    {
        *("key", "idempotency_key", "queue", "priority", "retries", "retry", "timeout", "job_name", "tags", "delivery"),
        *("concurrency_key", "concurrency", "rate_key", "rate", "warn_after"),
        "depends_on",
    }
)


def make_job(
    task: Task[..., Any],
    schedule: Schedule,
    args: object,
    given: Mapping[str, Any],
    *,
    max_payload: int,
    job_id: UUID | None = None,
    policies: Policies = (None, None, None, None),
    said: Said | None = None,
) -> NewJob:
    """A job ready to be stored; raises `InvalidInput` that names what cannot be accepted."""
    options, arguments = split_options(given)
    if args is not None:
        if arguments:
            raise InvalidInput("pass arguments by name or as args=, not both", field=f"args.{next(iter(arguments))}")
        arguments = check_mapping(args, "args")
    task.definition.check_args(arguments)
    return _ready(
        *(task.name, arguments, task.defaults, schedule, options),
        max_payload=max_payload,
        job_id=job_id,
        policies=policies,
        said=said,
    )


def make_more(
    first: NewJob, task: Task[..., Any], args: object, *, max_payload: int, job_id: UUID | None = None
) -> NewJob:
    """Another job like this one, which has no key, with arguments of its own."""
    arguments = {} if args is None else check_mapping(args, "args")
    task.definition.check_args(arguments)
    body = json.encode(arguments, field="args", limit=max_payload)
    return NewJob(
        job_id or new_id(),
        first.lane,
        first.schedule,
        body,
        first.options,
        first.timeout_ms,
        said=first.said,
        depends_on=first.depends_on,
    )


def make_target_job(
    rules: TargetRules | None,
    target: object,
    callback_url: str | None,
    schedule: Schedule,
    args: object,
    given: Mapping[str, Any],
    *,
    max_payload: int,
    policies: Policies = (None, None, None, None),
    said: Said | None = None,
) -> NewJob:
    """A job with a target, ready to be stored; without rules, for somebody to store who has his own."""
    options, arguments = split_options(given)
    if args is not None:
        if arguments:
            raise InvalidInput("pass arguments by name or as args=, not both", field=f"args.{next(iter(arguments))}")
        arguments = check_mapping(args, "args")
    if target is None and callback_url is None:
        raise InvalidInput("says what to do", field="task", remedy="give a task, target= or callback_url=")
    task, body = (unchecked if rules is None else rules.make)(target, callback_url, arguments)
    return _ready(*(task, body, NOTHING_SAID, schedule, options), max_payload=max_payload, policies=policies, said=said)


def _ready(
    task: str,
    arguments: Mapping[str, Any],
    defaults: Defaults,
    schedule: Schedule,
    options: dict[str, Any],
    *,
    max_payload: int,
    job_id: UUID | None = None,
    policies: Policies = (None, None, None, None),
    said: Said | None = None,
) -> NewJob:
    queue, priority, timeout, idempotency_key = (
        options.pop(name, None) for name in ("queue", "priority", "timeout", "idempotency_key")
    )
    needs = options.pop("depends_on", None)
    depends_on = None if needs is None else read_depends_on(needs)
    if depends_on is not None and not isinstance(schedule, Once):
        raise InvalidInput("goes with a job that runs once", field="depends_on", remedy="use after=")
    return prepare(
        task=task,
        args=arguments,
        max_payload=max_payload,
        schedule=schedule,
        queue=defaults.queue if queue is None else queue,
        tier=defaults.tier if priority is None else check_tier(priority),
        options=add_policies(make_options(defaults.options, **options) if options else defaults.options, *policies),
        timeout=defaults.timeout if timeout is None else check_duration(timeout, "timeout"),
        key=options.get("key"),
        idempotency_key=idempotency_key,
        job_id=job_id,
        said=said,
        depends_on=depends_on,
    )


def check_no_target(target: object, callback_url: str | None) -> None:
    if target is not None or callback_url is not None:
        raise InvalidInput("task and target exclude each other", field="target", remedy="give one of them")


def check_mapping(value: object, field: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(
            f"must be a dict of arguments by name, not {type(value).__name__}", field=field, remedy="such as {'to': 1}"
        )
    return dict(value)


def split_options(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options and arguments, apart."""
    if RESERVED.isdisjoint(given):
        return {}, dict(given)
    options, arguments = {}, {}
    for name, value in given.items():
        if name in OPTIONS:
            options[name] = value
        elif name in RESERVED:
            raise InvalidInput(
                "cannot be given here",
                field=name,
                remedy="submit takes run_at, run_in, when; schedule takes cron, rrule, every, when and their bounds",
            )
        else:
            arguments[name] = value
    return options, arguments
