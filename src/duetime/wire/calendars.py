"""Requests and answers about calendars."""

from datetime import date
from typing import Annotated

from msgspec import Meta, Struct

from duetime.model.schedule.exclusion import MOST_DATES
from duetime.spec.fields import Request


class CalendarRequest(Request, frozen=True):
    dates: Annotated[tuple[date, ...], Meta(max_length=MOST_DATES, description="The days on which jobs do not fire.")]


class CalendarView(Struct, frozen=True):
    name: str
    dates: tuple[date, ...]
    version: int
    """Incremented whenever its days change."""
    jobs: int
    """How many live jobs exclude its days."""


class CalendarList(Struct, frozen=True):
    items: tuple[CalendarView, ...]
