"""When a job runs.

    Once      now, at a moment, or after a delay: one run
    Cron      on a cron line, in a time zone
    RRule     on a recurrence rule of iCalendar, in a time zone
    Every     at an interval from an anchor: exact seconds, or days and months of a zone's calendar
    After     whenever a run of another job has ended

A recurring schedule is a pure function from a moment to the next fire after it. It never looks at the previous run:
a crash loop cannot end a cron job, and any number of schedulers compute the same fires.

    cron_field, cron_days, cron_line        a cron line as a set of wall times
    cron_hash, dialect                      values that differ from job to job; other programs' cron syntax
    rrule_parts, rrule_days, rrule_times    a recurrence rule as a set of wall times
    zone                                    wall clocks of time zones, and clock changes
    walk, steps                             from wall times and numbers to moments: the contract for clock changes
    exclusion, allowed                      excluded days, and the remaining ones
    parts                                   intervals, delays and bounds, each validated
    from_options, parse, words              from options, from one text, from plain language to a schedule
    edited                                  what stays of a schedule when options of an edit replace others
    describe, preview                       from a schedule to text for people
"""

from duetime.model.schedule.after import ONS, After, On, make_after
from duetime.model.schedule.cron import Cron, make_cron
from duetime.model.schedule.describe import exact_form, explain
from duetime.model.schedule.edited import edited
from duetime.model.schedule.every import Every
from duetime.model.schedule.exclusion import Exclusion, make_exclusion
from duetime.model.schedule.from_options import BOUNDS, KINDS, DayMatch, make_schedule, match_days, needs_now
from duetime.model.schedule.moment import EARLIEST, LATEST, UnknownHere, UnusableSchedule, check_moment
from duetime.model.schedule.once import NOW, Once
from duetime.model.schedule.parse import parse_schedule
from duetime.model.schedule.parts import bounded
from duetime.model.schedule.preview import ComingFire, preview, why_nothing
from duetime.model.schedule.rrule import RRule, make_rrule
from duetime.model.schedule.stored import (
    Recurring,
    Schedule,
    decode_schedule,
    encode_schedule,
    same_schedule,
    shown_schedule,
)
from duetime.model.schedule.words import parse_words
from duetime.model.schedule.zone import check_zone, zone_name

__all__ = [
    "BOUNDS",
    "EARLIEST",
    "KINDS",
    "LATEST",
    "NOW",
    "ONS",
    "After",
    "ComingFire",
    "Cron",
    "DayMatch",
    "Every",
    "Exclusion",
    "On",
    "Once",
    "RRule",
    "Recurring",
    "Schedule",
    "UnknownHere",
    "UnusableSchedule",
    "bounded",
    "check_moment",
    "check_zone",
    "decode_schedule",
    "edited",
    "encode_schedule",
    "exact_form",
    "explain",
    "make_after",
    "make_cron",
    "make_exclusion",
    "make_rrule",
    "make_schedule",
    "match_days",
    "needs_now",
    "parse_schedule",
    "parse_words",
    "preview",
    "same_schedule",
    "shown_schedule",
    "why_nothing",
    "zone_name",
]
