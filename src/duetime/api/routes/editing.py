"""Editing jobs by id, guarded by their version."""

import re
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from duetime.api.endpoint import Call, Reply, Routes
from duetime.api.problems import INVALID_INPUT, Problem
from duetime.api.submitting import retry_policy
from duetime.api.views import job_view
from duetime.editing import Edits, make_changes
from duetime.errors import InvalidInput
from duetime.ids import show
from duetime.model import json
from duetime.model.access import Action
from duetime.model.job import Job
from duetime.model.policy import Misfire
from duetime.model.schedule import BOUNDS, KINDS, Schedule, make_schedule
from duetime.model.target import is_target
from duetime.wire.jobs import JobPatch, JobView, MisfireBody

routes = Routes("Jobs")
_VERSION = re.compile(r'"?([0-9]{1,9})"?')


@routes.patch(
    "/v1/jobs/{job_id}",
    Action.CONTROL,
    body=JobPatch,
    body_limit="job",
    answer=JobView,
    problems=(409, 412),
    headers={"If-Match": "The version (ETag) that the change is meant for: 412 when it is not the current one."},
)
async def change_job(call: Call) -> Reply:
    """Change a job: its schedule, arguments or policies. What is not given stays as it is."""
    store, job_id = call.service.store, call.identity("job")
    given = {name: value for name, value in msgspec.structs.asdict(call.body).items() if value is not UNSET}
    found = await store.job(call.tenant_id, job_id)
    schedule = await _schedule(call, given)
    target = await _target(call, found, given)
    changes = make_changes(found, None, schedule, _edits(given), max_payload=call.service.settings.max_payload)
    changes = msgspec.structs.replace(changes, **target)
    job = await store.edit_job(call.tenant_id, job_id, changes, _version(call))
    changed = sorted({*given, *(["target"] if target else [])})
    await call.act("jobs.change", show("job", job_id), ", ".join(changed) or None)
    report = await store.job_status(call.tenant_id, job_id)
    return Reply(job_view(job, report.status), headers={"etag": f'"{job.version}"'})


async def _target(call: Call, job: Job, given: dict[str, Any]) -> dict[str, Any]:
    """Another target is another task with other arguments. A job keeps its kind: a task stays a task."""
    if "args" in given and is_target(job.task):
        raise InvalidInput("a target has no arguments", field="args", remedy="give target")
    if "target" not in given:
        return {}
    if not is_target(job.task):
        raise InvalidInput("the job does a task", field="target", remedy="create another job")
    target = given.pop("target")
    made = call.service.targets.make(target)
    await call.service.secrets.check(call.who, target)
    return {
        "task": made.task,
        "args": json.encode(made.args, field="target", limit=call.service.settings.max_payload),
    }


async def _schedule(call: Call, given: dict[str, Any]) -> Schedule | UnsetType:
    """A schedule is given whole: its kind and its bounds."""
    times = {name: given.pop(name) for name in (*KINDS, *BOUNDS) if name in given}
    if not times:
        return UNSET
    if not times.keys() & set(KINDS):
        raise InvalidInput(
            "a schedule is changed as a whole",
            field=next(iter(times)),
            remedy="give cron, rrule, every, run_at or when too",
        )
    if times.get("exclude") is not None:
        times["exclude"] = msgspec.structs.asdict(times["exclude"])
    return make_schedule(**times, now=await call.service.store.now())


def _edits(given: dict[str, Any]) -> Edits:
    edits = dict(given)
    if "name" in edits:
        edits["job_name"] = edits.pop("name")
    if "retry" in edits:
        edits["retry"] = retry_policy(edits["retry"])
    if isinstance(edits.get("misfire"), MisfireBody):
        edits["misfire"] = Misfire(**msgspec.structs.asdict(edits["misfire"]))
    return edits  # type: ignore[return-value]


def _version(call: Call) -> int | None:
    given = call.header(b"if-match")
    if given is None or given.strip() == "*":
        return None
    match = _VERSION.fullmatch(given.strip())
    if match is None:
        raise Problem(INVALID_INPUT, "is not a version", field="If-Match", remedy='the ETag of the job, such as "3"')
    return int(match[1])
