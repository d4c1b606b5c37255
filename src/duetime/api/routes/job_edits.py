"""Editing jobs by id, with optimistic locking by version."""

import re
from typing import Any

import msgspec
from msgspec import UNSET

from duetime.api.call import Call
from duetime.api.endpoint import Reply, Routes
from duetime.api.job_views import job_view
from duetime.api.problems import INVALID_INPUT, Problem
from duetime.errors import InvalidInput
from duetime.ids import show
from duetime.model import json
from duetime.model.access import Action
from duetime.model.job import Job
from duetime.model.target import is_target
from duetime.spec.resolved import TIMES, base_of, edit
from duetime.store.wrappers.scoped import refused
from duetime.wire.jobs import JobPatch, JobView

routes = Routes("Jobs")
_VERSION = re.compile(r'"?([0-9]{1,9})"?')


@routes.patch(
    "/v1/jobs/{job_id}",
    Action.CONTROL,
    scoped=True,
    body=JobPatch,
    body_limit="job",
    answer=JobView,
    problems=(409, 412),
    headers={"If-Match": "The version (ETag) that the change is for. 412 if it is not the current one."},
)
async def change_job(call: Call) -> Reply:
    """Edit a job: its schedule, arguments or options. Omitted fields do not change."""
    store, job_id = call.store, call.identity("job")
    given = {name: value for name, value in msgspec.structs.asdict(call.body).items() if value is not UNSET}
    found = await store.reads.job(call.tenant_id, job_id)
    what = await _what(call, found, given)
    now = None if TIMES.isdisjoint(given) else await store.now()
    zone = base_of((await call.tenant()).defaults).zone
    changes = msgspec.structs.replace(edit(found, given, now=now, decoded=True, zone=zone), **what)
    job = await store.control.edit_job(call.tenant_id, job_id, changes, _version(call))
    changed = sorted({*given, *what.keys() - {"task"}})
    await call.act("jobs.change", show("job", job_id), ", ".join(changed) or None)
    report = await store.lists.job_status(call.tenant_id, job_id)
    return Reply(job_view(job, report.status), headers={"etag": f'"{job.version}"'})


async def _what(call: Call, job: Job, given: dict[str, Any]) -> dict[str, Any]:
    """New arguments, or a new target. A job with a task cannot get a target, and vice versa."""
    limit = call.service.settings.max_payload
    if "args" in given:
        if is_target(job.task):
            raise InvalidInput("a job with a target has no arguments", field="args", remedy="give target")
        args = json.encode(given.pop("args"), field="args", limit=limit)
        tasks = call.service.tasks
        checks = await tasks.argument_checks(await tasks.known(call.tenant_id), [job.task])
        if job.task in checks:
            checks[job.task].check(args)
        return {"args": args}
    if "target" not in given:
        return {}
    if call.who.scope is not None:
        raise refused("target", "use a key without a scope")  # before secrets are looked up
    if not is_target(job.task):
        raise InvalidInput("the job runs a task", field="target", remedy="create another job")
    target = given.pop("target")
    made = call.service.targets.make(target)
    await call.service.secrets.check(call.who, target)
    return {"task": made.task, "args": json.encode(made.args, field="target", limit=limit)}


def _version(call: Call) -> int | None:
    given = call.header(b"if-match")
    if given is None or given.strip() == "*":
        return None
    match = _VERSION.fullmatch(given.strip())
    if match is None:
        raise Problem(INVALID_INPUT, "is not a version", field="If-Match", remedy='the ETag of the job, such as "3"')
    return int(match[1])
