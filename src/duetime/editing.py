"""What a caller wants to be different about a job, checked and made an edit."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import msgspec
from msgspec import UNSET, UnsetType

from duetime.engine.intake import check_timeout
from duetime.engine.options import (
    Delivery,
    Duration,
    Priority,
    add_keys,
    add_policies,
    add_warning,
    check_duration,
    check_tags,
    check_tier,
    make_options,
)
from duetime.errors import InvalidInput
from duetime.model import json
from duetime.model.edit import Changes
from duetime.model.job import Job, Options
from duetime.model.name import check_key, check_name
from duetime.model.policy import Misfire, MisfireMode, Overlap
from duetime.model.retry import RetryPolicy
from duetime.model.schedule import Once, Schedule
from duetime.submission import check_mapping
from duetime.task import Task


class Edits(TypedDict, total=False):
    """What can be edited beside the schedule. None takes a thing away."""

    args: Mapping[str, Any]
    queue: str
    priority: Priority
    timeout: Duration | None
    job_name: str | None
    tags: Sequence[str]
    retries: int
    retry: RetryPolicy
    delivery: Delivery
    misfire: Misfire | MisfireMode
    overlap: Overlap
    jitter: Duration
    max_runs: int | None
    owner: str | None
    payload_ref: str | None
    concurrency_key: str | None
    concurrency: int
    rate_key: str | None
    rate: str | None
    warn_after: Duration | None


def make_changes(
    job: Job, task: Task[..., Any] | None, schedule: Schedule | UnsetType, edits: Edits, *, max_payload: int
) -> Changes:
    """An edit of this job, ready for the store; raises `InvalidInput` that names what cannot be accepted."""
    unknown = sorted(edits.keys() - Edits.__annotations__.keys())
    if unknown:
        raise InvalidInput("cannot be edited", field=unknown[0], remedy="arguments of the task go into args={…}")
    then = job.schedule if schedule is UNSET else schedule
    return Changes(
        schedule=schedule,
        args=_args(task, edits["args"], max_payload) if "args" in edits else UNSET,
        options=_options(job.options, edits, repeats=not isinstance(then, Once)),
        queue=check_name(edits["queue"], "queue") if "queue" in edits else UNSET,
        tier=check_tier(edits["priority"]) if "priority" in edits else UNSET,
        timeout_ms=_timeout(edits["timeout"]) if "timeout" in edits else UNSET,
    )


def _timeout(timeout: Duration | None) -> int | None:
    return None if timeout is None else check_timeout(check_duration(timeout, "timeout"))


def _args(task: Task[..., Any] | None, args: object, max_payload: int) -> bytes:
    given = check_mapping(args, "args")
    if task is not None:
        task.definition.check_args(given)
    return json.encode(given, field="args", limit=max_payload)


def _options(old: Options, edits: Edits, *, repeats: bool) -> dict[str, Any]:
    """The options that become others."""
    kept = ("job_name", "retries", "retry", "delivery")
    new = make_options(old, **{name: edits[name] for name in kept if name in edits})  # type: ignore[literal-required]
    policies = [edits.get(name) for name in ("misfire", "overlap", "jitter", "max_runs")]
    if not repeats and any(policy is not None for policy in policies):
        raise InvalidInput("a job that runs once has no policies", field="misfire", remedy="leave them out")
    new = add_policies(new, *policies)  # type: ignore[arg-type]
    if "max_runs" in edits and edits["max_runs"] is None:
        new = msgspec.structs.replace(new, max_runs=None)
    if "job_name" in edits and edits["job_name"] is None:
        new = msgspec.structs.replace(new, name=None)
    if "tags" in edits:
        new = msgspec.structs.replace(new, tags=check_tags(edits["tags"]))
    if "owner" in edits:
        new = msgspec.structs.replace(new, owner=_text(edits["owner"], "owner"))
    if "payload_ref" in edits:
        new = msgspec.structs.replace(new, payload_ref=_text(edits["payload_ref"], "payload_ref"))
    new = _limits(new, edits)
    before, after = msgspec.structs.asdict(old), msgspec.structs.asdict(new)
    return {name: value for name, value in after.items() if value != before[name]}


def _limits(options: Options, edits: Edits) -> Options:
    """A key goes with what it limits: taking away one takes away the other."""
    gone: dict[str, Any] = {}
    if "concurrency_key" in edits and edits["concurrency_key"] is None:
        gone |= {"concurrency_key": None, "concurrency": Options().concurrency}
    if any(name in edits and edits[name] is None for name in ("rate_key", "rate")):
        gone |= {"rate_key": None, "rate": None}
    if "warn_after" in edits and edits["warn_after"] is None:
        gone["warn_after"] = None
    kept = msgspec.structs.replace(options, **gone) if gone else options
    keys = [edits.get(name) for name in ("concurrency_key", "concurrency", "rate_key", "rate")]
    return add_warning(add_keys(kept, *keys), edits.get("warn_after"))  # type: ignore[arg-type]


def _text(value: str | None, field: str) -> str | None:
    return None if value is None else check_key(value, field)
