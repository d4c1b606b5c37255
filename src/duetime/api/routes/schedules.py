"""Previews of schedules."""

from datetime import datetime
from typing import Any

import msgspec

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.api.job_views import schedule_view
from duetime.errors import InvalidInput
from duetime.model.access import Action
from duetime.model.calendar import dates_of
from duetime.model.schedule import (
    BOUNDS,
    KINDS,
    Once,
    Schedule,
    check_moment,
    check_zone,
    make_schedule,
    preview,
    why_nothing,
)
from duetime.spec.resolved import base_of
from duetime.wire.service import Fire, Preview, PreviewRequest

routes = Routes("Schedules")
_BOUNDS = tuple(name for name in BOUNDS if name != "tz")


@routes.post(
    "/v1/schedules/preview", Action.READ, scoped=True, body=PreviewRequest, answer=Preview, repeats="by nature"
)
async def preview_schedule(call: Call) -> Preview:
    """Describe a schedule in one sentence, and list its next fires with the effects of clock changes."""
    request, store = call.body, call.store
    start = await store.now() if request.start is None else check_moment(request.start, "start")
    usual_zone = base_of((await call.tenant()).defaults).zone
    schedule = _schedule(request, start, usual_zone)
    if not isinstance(schedule, Once) and schedule.calendars:
        schedule = schedule.holding(dates_of(schedule.calendars, await store.calendars.calendars(call.tenant_id)))
    zone = request.tz or getattr(schedule, "zone", usual_zone)
    fires = await call.service.computing.run(call.tenant_id, preview, schedule, zone, start, request.count)
    shown = tuple(Fire(each.local, each.utc, each.change, each.note) for each in fires)
    reason = None if fires else await call.service.computing.run(call.tenant_id, why_nothing, schedule, start)
    return Preview(schedule_view(schedule, zone), shown, reason)


def _schedule(request: PreviewRequest, now: datetime, usual_zone: str) -> Schedule:
    given: dict[str, Any] = {
        name: value for name in (*KINDS, *_BOUNDS) if (value := getattr(request, name)) is not None
    }
    if "exclude" in given:
        given["exclude"] = msgspec.structs.asdict(given["exclude"])
    if request.schedule is not None:
        if other := next((name for name in KINDS if name in given), None):
            raise InvalidInput(f"`{other}` cannot be combined with `schedule`", field=other, remedy="omit it")
        given["when"] = request.schedule
    elif not any(name in given for name in KINDS):
        raise InvalidInput("is not a schedule", field="schedule", remedy="such as 'every weekday at 9am'")
    if request.tz is not None:
        zone = check_zone(request.tz)
        if "run_at" not in given:
            given["tz"] = zone
    try:
        return make_schedule(**given, now=now, usual_zone=usual_zone)
    except InvalidInput as error:
        field = "schedule" if error.field == "when" and request.when is None else error.field
        raise InvalidInput(error.message, field=field, remedy=error.remedy) from None
