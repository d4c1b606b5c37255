"""Jobs that an app has checked, and edits of them, in the words of the API."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from duetime.ids import show
from duetime.model import json
from duetime.model.dependency import Rule
from duetime.model.edit import Changes
from duetime.model.job import NewJob, Options, decode_options
from duetime.model.lane import Tier
from duetime.model.schedule import After, Exclusion, Once, Schedule, exact_form
from duetime.model.target import is_target
from duetime.spec.derived import OPTIONS
from duetime.spec.resolved import POLICIES
from duetime.spec.shown import shown_options


class _Kept(NamedTuple):
    queue: str
    tier: Tier
    timeout_ms: int | None
    options: Options


def job_request(job: NewJob) -> dict[str, Any]:
    """The fields of a job to create; None is left out."""
    lane, options = job.lane, decode_options(job.options)
    body = json.decode(job.args)
    what = {"target": body} if is_target(lane.task) else {"task": lane.task, "args": body}
    # All of them, even where they are as usual: else the server would take what the task's worker has told.
    fields = {**what, **_shown(shown_options(_Kept(lane.queue, Tier(lane.tier), job.timeout_ms, options)))}
    fields["idempotency_key"] = job.idempotency_key
    if options.concurrency_key is None:
        del fields["concurrency"]
    if isinstance(job.schedule, Once | After):
        fields = {name: value for name, value in fields.items() if name not in POLICIES}
    if job.depends_on is not None:
        parents = [show("job", parent) for parent in job.depends_on.parents]
        fields["depends_on"] = {"jobs": parents, **rule_request(job.depends_on.rule)}
    if job.said is not None:
        # In its words, so that the server knows the same request again on another day.
        return {**fields, job.said.option: job.said.text, "tz": job.said.zone}
    return {**fields, **_schedule(job.schedule)}


def _shown(options: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(options)
    return found


def rule_request(rule: Rule) -> dict[str, str]:
    """By which rule parents are waited for."""
    parts = (("need", rule.need), ("on", rule.wanted), ("otherwise", rule.otherwise))
    return {name: part.name.lower() for name, part in parts}


def edit_request(changes: Changes) -> dict[str, Any]:
    """The fields of an edit; None takes a thing away."""
    fields = {} if changes.schedule is UNSET else _schedule(changes.schedule)
    if changes.args is not UNSET:
        fields["args"] = json.decode(changes.args)
    if changes.task is not UNSET:
        fields["task"] = changes.task
    if changes.queue is not UNSET:
        fields["queue"] = changes.queue
    if changes.tier is not UNSET:
        fields["priority"] = changes.tier.name
    if changes.timeout_ms is not UNSET:
        fields["timeout"] = _seconds(changes.timeout_ms)
    shown: dict[str, Any] = {}
    for name, value in changes.options.items():
        option = "delivery" if name == "at_most_once" else name
        shown[option] = None if value is None else OPTIONS[option].kind.show(value)
    if shown.get("concurrency_key", UNSET) is None:
        shown.pop("concurrency", None)  # it went with its key, and is refused without one
    return {**fields, **_shown(shown)}


def _schedule(schedule: Schedule) -> dict[str, Any]:
    """What says when, and nothing that says nothing."""
    if isinstance(schedule, Once):
        return _given({"run_at": schedule.at, "run_in": schedule.delay})
    if isinstance(schedule, After):
        return {"after": {"job": show("job", schedule.job), "on": schedule.on}}
    kind, _, form = exact_form(schedule).partition(" ")
    return _given(
        {
            "when" if schedule.said is not None else kind: schedule.said or form,
            "tz": schedule.zone,
            "start_at": schedule.start_at,
            "end_at": schedule.end_at,
            "exclude": None if schedule.exclude is None else _exclude(schedule.exclude),
        }
    )


def _exclude(days: Exclusion) -> dict[str, Any]:
    """Without the days that the store found in the calendars."""
    asked: dict[str, Any] = msgspec.to_builtins(days.holding(()))
    return asked


def _seconds(timeout_ms: int | None) -> float | None:
    return None if timeout_ms is None else timeout_ms / 1000


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
