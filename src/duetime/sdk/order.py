"""What an app submits: a call or a target with its options, before they are resolved.

Where the jobs are in a database of this process, an order becomes a job here (`make_jobs`). A server gets the options
as they were given, and resolves them itself.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from duetime.errors import InvalidInput
from duetime.ids import new_ids
from duetime.model import json
from duetime.model.dependency import Rule
from duetime.model.job import DEFAULT_TENANT, NewJob
from duetime.model.target import Target
from duetime.sdk.task import Call, Task
from duetime.spec.resolved import NOTHING_GIVEN, TIMES, Resolved, check_once, is_told_by_day, merged, resolve
from duetime.targets.validation import TargetRules

NO_OPTIONS: dict[str, Any] = {}


class Order(msgspec.Struct, frozen=True, gc=False):
    what: Call[Any] | Target
    args: bytes
    """The arguments of a call, encoded."""
    options: Mapping[str, Any] = NO_OPTIONS
    """What the submission gives, in addition to the task. The orders of a batch share one object."""
    once: bool = True
    """Whether it must run once: it comes from `submit`."""

    @property
    def given(self) -> dict[str, Any]:
        """All options: of the decorator, of `options()` and of the submission."""
        if not isinstance(self.what, Call):
            return dict(self.options)
        return merged(merged(self.what.task.declared, self.what.task.given), self.options)


class Node(NamedTuple):
    """A node of a graph: an order, the names of its parents, and by which rule it waits for them."""

    order: Order
    parents: Sequence[str]
    rule: Rule


def needs_the_day(orders: Sequence[Order], usual: Resolved) -> bool:
    """Whether one of these schedules depends on the day of submission."""
    known: Mapping[str, Any] = NO_OPTIONS
    has_time = False
    for order in orders:
        if order.options is not known:
            known = order.options
            has_time = any(name in TIMES and value is not None for name, value in known.items())
            if has_time and is_told_by_day(known, usual.zone):
                return True
        # A time that the submission gives replaces the one of the task.
        if not has_time and isinstance(order.what, Call) and order.what.task.over(usual)[1] is None:
            return True
    return False


def make_jobs(
    orders: Sequence[Order],
    rules: Callable[[], TargetRules],
    *,
    max_payload: int,
    usual: Resolved = NOTHING_GIVEN,
    now: datetime | None = None,
) -> list[NewJob]:
    """Jobs ready to be stored. Raises `InvalidInput` that names the invalid option. `usual` are the defaults of the
    tenant; `now` is required if `needs_the_day`."""
    jobs: list[NewJob] = []
    last: tuple[Task[..., Any] | None, Mapping[str, Any], Resolved] | None = None
    alike: NewJob | None = None
    unset = usual is NOTHING_GIVEN
    for order, job_id in zip(orders, new_ids(len(orders)), strict=True):
        what = order.what
        task = what.task if isinstance(what, Call) else None
        # Most calls of a batch have the same task and options.
        if last is None or task is not last[0] or order.options is not last[1]:
            plain = None if task is None or order.options else task.resolved if unset else task.over(usual)[1]
            last = task, order.options, plain or _resolve(task, order, usual, now)
            alike = None
        if isinstance(what, Call):
            name, args = what.task.name, order.args
        else:
            made = rules().make(what)
            name, args = made.task, json.encode(made.args, field="args", limit=max_payload)
        if alike is not None and task is not None:
            jobs.append(msgspec.structs.replace(alike, id=job_id, args=args))
        else:
            job = last[2].job(DEFAULT_TENANT, name, args, job_id=job_id)
            alike = None if job.fingerprint else job  # a fingerprint is that of its arguments
            if not unset and job.idempotency_key is not None:
                # A repeated request must match also after the tenant's defaults have changed.
                asked = as_asked(order, job, now)
                job = msgspec.structs.replace(job, request_fingerprint=asked.fingerprint)
            jobs.append(job)
    return jobs


def as_asked(order: Order, job: NewJob, now: datetime | None) -> NewJob:
    """The job of an order without the defaults of the tenant: the fingerprint of a request must not depend on them."""
    try:
        asked = _resolve(order.what.task if isinstance(order.what, Call) else None, order, NOTHING_GIVEN, now)
    except InvalidInput:
        return job  # its options are valid only together with the defaults, such as a rate for their rate_key
    return asked.job(job.lane.tenant_id, job.lane.task, job.args, job_id=job.id)


def _resolve(task: Task[..., Any] | None, order: Order, usual: Resolved, now: datetime | None) -> Resolved:
    options = order.options
    if task is None:
        found = resolve(usual, options, now=now)
    else:
        found = resolve(task.over(usual)[0], merged(task.given, options) if task.given else options, now=now)
    if order.once:
        check_once(found.schedule, order.given)
    return found


def check_call(call: Call[Any], task: str) -> None:
    """Check that new arguments are a call of the job's own task."""
    if call.task.name != task:
        raise InvalidInput(
            f"the task of this job is {task}, not {call.task.name}", field="args", remedy="bind that task"
        )
