"""Bulk actions: one action on everything that a filter matches."""

from typing import Any, assert_never, get_args

import msgspec

from duetime.api.call import Call
from duetime.api.endpoint import Reply, Routes
from duetime.api.idempotency import keyed_by_header, replay_headers
from duetime.api.list_filters import dead_filter, job_filter, run_filter
from duetime.engine.bulk_runner import count_affected, shown_id
from duetime.errors import InvalidInput
from duetime.ids import new_id, show
from duetime.model.access import Action
from duetime.model.bulk import (
    STARTING,
    Bulk,
    BulkPlan,
    BulkWork,
    DeadAction,
    DeadLettersWork,
    Item,
    JobAction,
    JobsWork,
    NewBulk,
    RunAction,
    RunsWork,
)
from duetime.model.lists import RunItem
from duetime.wire.bulk_actions import BulkFailure, BulkList, BulkPreview, BulkRequest, BulkSample, BulkView

routes = Routes("Bulk actions")
_ACTIONS: dict[str, tuple[str, ...]] = {
    "jobs": get_args(JobAction),
    "runs": get_args(RunAction),
    "dead_letters": get_args(DeadAction),
}


@routes.post("/v1/bulk-actions/preview", Action.READ, body=BulkRequest, answer=BulkPreview, repeats="by nature")
async def preview_bulk_action(call: Call) -> BulkPreview:
    """Count what a bulk action would affect."""
    found = await count_affected(call.service.store, call.tenant_id, _plan(call.body).work)
    sample = tuple(BulkSample(shown_id(item), _name(item)) for item in found.sample)
    return BulkPreview(found.matching, found.affected, found.complete, sample)


@routes.post(
    "/v1/bulk-actions",
    Action.CONTROL,
    body=BulkRequest,
    answer=BulkView,
    status=202,
    problems=(409,),
    repeats="by handler",
)
async def create_bulk_action(call: Call) -> Reply:
    """Start a bulk action. It continues on any server until everything that matches was handled."""
    plan = _plan(call.body)
    keyed = keyed_by_header(call, "bulk", msgspec.to_builtins(call.body))
    new = NewBulk(new_id(), call.tenant_id, plan, call.who.key_id, call.who.name)
    bulk = await call.service.store.bulk.put_bulk(new, keyed)
    if bulk.id == new.id:
        await call.act("bulk_actions.start", show("blk", bulk.id), _sentence(plan))
        call.service.when_bulk_is_put()
    return Reply(_view(bulk), headers=replay_headers(keyed))


@routes.get("/v1/bulk-actions", Action.READ, answer=BulkList)
async def list_bulk_actions(call: Call) -> BulkList:
    """List the newest bulk actions."""
    return BulkList(tuple(_view(each) for each in await call.service.store.bulk.bulks(call.tenant_id)))


@routes.get("/v1/bulk-actions/{bulk_id}", Action.READ, answer=BulkView)
async def get_bulk_action(call: Call) -> BulkView:
    """Read the progress of a bulk action."""
    return _view(await call.service.store.bulk.bulk(call.tenant_id, call.identity("blk", "bulk_id")))


@routes.action("/v1/bulk-actions/{bulk_id}/stop", Action.CONTROL, answer=BulkView)
async def stop_bulk_action(call: Call) -> BulkView:
    """Stop a bulk action where it is. What it has done stays."""
    bulk_id = call.identity("blk", "bulk_id")
    bulk = await call.service.store.bulk.stop_bulk(call.tenant_id, bulk_id)
    await call.act("bulk_actions.stop", show("blk", bulk_id), f"{bulk.done} done")
    return _view(bulk)


def _plan(request: BulkRequest) -> BulkPlan:
    given = [name for name in _ACTIONS if getattr(request, name) is not None]
    if len(given) != 1:
        wrong = "is missing" if not given else "cannot be combined with " + given[0]
        raise InvalidInput(wrong, field=(given or ["jobs"])[-1], remedy="give one of jobs, runs and dead_letters")
    (of,) = given
    if request.action not in _ACTIONS[of]:
        raise InvalidInput(
            f"{request.action!r} is not an action on {of.replace('_', ' ')}",
            field="action",
            remedy=f"use one of {', '.join(_ACTIONS[of])}",
        )
    conditions = {name: value for name, value in msgspec.to_builtins(getattr(request, of)).items() if value is not None}
    rate = request.rate if request.action in STARTING else None
    return BulkPlan(_work(request), conditions, rate)


def _work(request: BulkRequest) -> BulkWork:
    action: Any = request.action
    if request.jobs is not None:
        return JobsWork(action, job_filter(request.jobs))
    if request.runs is not None:
        return RunsWork(action, run_filter(request.runs))
    assert request.dead_letters is not None
    return DeadLettersWork(action, dead_filter(request.dead_letters))


def _view(bulk: Bulk) -> BulkView:
    work = bulk.plan.work
    return BulkView(
        bulk_id=show("blk", bulk.id),
        status="running" if bulk.finished_at is None else "stopped" if bulk.stopped else "done",
        action=work.action,
        objects=_objects(work),
        conditions=bulk.plan.conditions,
        actor=bulk.actor,
        done=bulk.done,
        skipped=bulk.skipped,
        failed=bulk.failed,
        failures=tuple(BulkFailure(each.object, each.error) for each in bulk.errors),
        created_at=bulk.created_at,
        finished_at=bulk.finished_at,
    )


def _objects(work: BulkWork) -> Any:
    match work:
        case JobsWork():
            return "jobs"
        case RunsWork():
            return "runs"
        case DeadLettersWork():
            return "dead_letters"
        case _:
            assert_never(work)


def _sentence(plan: BulkPlan) -> str:
    which = ", ".join(f"{name}={value}" for name, value in plan.conditions.items()) or "all"
    return f"{plan.work.action} {_objects(plan.work).replace('_', ' ')}: {which}"[:500]


def _name(item: Item) -> str:
    return item.task if isinstance(item, RunItem) else item.options.name or item.task
