"""When a job runs.

    Once      now, at a moment, or after a delay: one run
    Cron      on a cron line, in a time zone
    RRule      on a recurrence rule of iCalendar, in a time zone
    Every     at an interval from an anchor: exact seconds, or days and months of a zone's calendar
    After     whenever a run of another job has ended

A recurring schedule is a pure function from a moment to the next fire after it. It never looks at the previous run:
a crash loop cannot end a cron job, and any number of schedulers compute the same fires.

    field, cron_days, line what a cron line says: a set of wall times
    hashing, dialect       values that differ from job to job; what other programs write for a cron line
    rrule_parts, rrule_days, rrule_times    what a recurrence rule says: a set of wall times as well
    zone                   what a clock on the wall shows, and when it is changed
    walk, steps            from wall times and numbers to moments: here the contract for clock changes is kept
    exclusion, allowed     days that are left out, and those that are left
    making                 intervals, delays and bounds, each checked
    asking, reading        from what people write to a schedule: by options, or one text; `words` is plain language
    telling, previewing    from a schedule to what people read
"""

from duetime.model.schedule.after import ONS, After, On, make_after
from duetime.model.schedule.cron import Cron, make_cron
from duetime.model.schedule.describe import exact_form, explain
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
from duetime.model.schedule.zone import check_zone

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
]
