"""The words of the grammar, and phrases that show them at work."""

from datetime import timedelta

from duetime.model.schedule.period import Period

UNITS = {
    "second": Period(exact=timedelta(seconds=1)),
    "minute": Period(exact=timedelta(minutes=1)),
    "hour": Period(exact=timedelta(hours=1)),
    "day": Period(days=1),
    "week": Period(days=7),
    "month": Period(months=1),
    "year": Period(months=12),
}
_SHORT_UNITS = {"sec": "second", "secs": "second", "min": "minute", "mins": "minute", "hr": "hour", "hrs": "hour"}
UNIT_NAMES = {name: name for name in UNITS} | {f"{name}s": name for name in UNITS} | _SHORT_UNITS
RHYTHMS = {
    "hourly": "hour",
    "daily": "day",
    "weekly": "week",
    "monthly": "month",
    "quarterly": "quarter",
    "yearly": "year",
    "annually": "year",
}
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
NUMBERS = {name: number for number, name in enumerate(_NUMBERS, 1)}
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": -1}

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SHORT_WEEKDAYS = {"tues": "TUE", "thur": "THU", "thurs": "THU"}
WEEKDAY_PLURALS = {f"{name}s": name[:3].upper() for name in _WEEKDAYS}
WEEKDAY_NAMES = (
    {name: name[:3].upper() for name in _WEEKDAYS}
    | {name[:3]: name[:3].upper() for name in _WEEKDAYS}
    | _SHORT_WEEKDAYS
    | WEEKDAY_PLURALS
)
WEEKDAY_GROUPS = {"weekday": "MON-FRI", "weekdays": "MON-FRI", "weekend": "SAT,SUN", "weekends": "SAT,SUN"}
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
MONTH_NAMES = (
    {name: number for number, name in enumerate(_MONTHS, 1)}
    | {name[:3]: number for number, name in enumerate(_MONTHS, 1)}
    | {"sept": 9}
)
_LITTLE_WORDS = (
    *("a", "an", "the", "and", "of", "on", "at", "in", "to", "through", "every", "each", "other", "half", "next"),
    *("now", "immediately", "today", "tomorrow", "after", "noon", "midnight", "am", "pm", "o'clock", "past"),
    *("between", "from", "until", "till", "right"),
)
VOCABULARY = sorted(
    {*UNIT_NAMES, *RHYTHMS, *NUMBERS, *ORDINALS, *WEEKDAY_NAMES, *WEEKDAY_GROUPS, *MONTH_NAMES, *_LITTLE_WORDS}
)

PHRASES = (
    "every weekday at 9am",
    "every day at 9:00 and 17:30",
    "every 15 minutes",
    "every minute",
    "every hour on weekdays",
    "every hour between 9 and 17",
    "every 15 minutes between 9:00 and 17:00 on weekdays",
    "every other tuesday at 9",
    "every second day at 9am",
    "first monday at 9",
    "every hour at :15",
    "every 2 hours on weekdays",
    "every monday and thursday at 8pm",
    "every monday to friday at 7:30",
    "every 2 weeks",
    "every 2 weeks on monday at 9",
    "every other day at noon",
    "every 3 months on the 15th at 8:00",
    "every 24 december at 18:00",
    "mondays at 9",
    "weekends at 10:30",
    "on the 1st and 15th at noon",
    "on the last day of the month at 18:00",
    "first monday of the month at 9am",
    "last friday of the month at 17:30",
    "last weekday of the month at 16:00",
    "hourly",
    "daily at midnight",
    "weekly on monday at 9",
    "monthly on the 1st at 8am",
    "quarterly",
    "yearly on january 1 at 12:00",
    "now",
    "in 2 hours",
    "in half an hour",
    "in 1 day and 6 hours",
    "at 17:30",
    "today at 17:30",
    "tomorrow at 8",
    "the day after tomorrow at noon",
    "next monday at 9am",
    "on 2030-12-24 at 18:00",
)
