"""Schedules: what one means, before any job has it."""

from datetime import datetime
from typing import Any

from duetime.api.endpoint import Call, Routes
from duetime.api.views import schedule_view
from duetime.errors import InvalidInput
from duetime.model.access import Action
from duetime.model.schedule import Schedule, check_moment, check_zone, make_schedule, parse_schedule
from duetime.model.schedule.previewing import preview
from duetime.wire.service import Fire, Preview, PreviewRequest

routes = Routes("Schedules")


@routes.post("/v1/schedules/preview", Action.READ, body=PreviewRequest, answer=Preview)
async def preview_schedule(call: Call) -> Preview:
    """What a schedule means in one sentence, and its next fires with what clock changes make of them."""
    request = call.body
    start = await call.service.store.now() if request.start is None else check_moment(request.start, "start")
    zone = "UTC" if request.tz is None else check_zone(request.tz)
    schedule = _schedule(request, zone, start)
    fires = preview(schedule, zone, start, request.count)
    return Preview(schedule_view(schedule), tuple(Fire(each.local, each.utc, each.change, each.note) for each in fires))


def _schedule(request: PreviewRequest, zone: str, now: datetime) -> Schedule:
    text = request.when if request.schedule is None else request.schedule
    times: dict[str, Any] = {
        name: value
        for name in ("run_at", "run_in", "cron", "every", "start_at", "end_at")
        if (value := getattr(request, name)) is not None
    }
    if text is None:
        if not times.keys() & {"run_at", "run_in", "cron", "every"}:
            raise InvalidInput("says no schedule", field="schedule", remedy="such as 'every weekday at 9am'")
        if request.tz is not None and "run_at" not in times:
            times["tz"] = zone
        return make_schedule(**times, now=now)
    if times or (request.when is not None and request.schedule is not None):
        other = next(iter(times), "when")
        raise InvalidInput("one text is the whole schedule", field=other, remedy="leave it out")
    return parse_schedule(text, zone=zone, now=now)
