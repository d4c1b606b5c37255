"""Calendars: named sets of days that jobs can leave out."""

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.model.access import Action
from duetime.model.calendar import Calendar, make_calendar
from duetime.model.structs import struct_like
from duetime.wire.calendars import CalendarList, CalendarRequest, CalendarView
from duetime.wire.jobs import Deleted

routes = Routes("Calendars")


@routes.get("/v1/calendars", Action.READ, answer=CalendarList)
async def list_calendars(call: Call) -> CalendarList:
    """List the calendars."""
    return CalendarList(tuple(_view(each) for each in await call.service.store.calendars.calendars(call.tenant_id)))


@routes.get("/v1/calendars/{calendar}", Action.READ, answer=CalendarView)
async def get_calendar(call: Call) -> CalendarView:
    """Read a calendar."""
    return _view(await call.service.store.calendars.calendar(call.tenant_id, call.path["calendar"]))


@routes.put("/v1/calendars/{calendar}", Action.CONTROL, body=CalendarRequest, answer=CalendarView)
async def put_calendar(call: Call) -> CalendarView:
    """Create or replace a calendar. All jobs that use it follow the new days from now on."""
    wanted = make_calendar(call.path["calendar"], call.body.dates)
    calendar = await call.service.store.calendars.set_calendar(call.tenant_id, wanted.name, wanted.dates)
    await call.act("calendars.set", calendar.name, f"{len(calendar.dates)} days")
    return _view(calendar)


@routes.delete("/v1/calendars/{calendar}", Action.CONTROL, answer=Deleted, problems=(409,))
async def delete_calendar(call: Call) -> Deleted:
    """Delete a calendar that no job uses."""
    name = call.path["calendar"]
    await call.service.store.calendars.delete_calendar(call.tenant_id, name)
    await call.act("calendars.delete", name)
    return Deleted()


def _view(calendar: Calendar) -> CalendarView:
    return struct_like(CalendarView, calendar)
