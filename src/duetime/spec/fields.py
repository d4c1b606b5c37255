"""JSON types that options and requests share.

Requests refuse unknown fields. Answers may gain fields: a client must ignore unknown ones.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

# PostgreSQL cannot store NUL, so no text with one can be stored or found.
Text = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00]*\Z")]
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:/@\-]*\Z")]
Names = Annotated[tuple[Name, ...], Meta(max_length=50)]
Moment = Annotated[
    str, Meta(max_length=64, description="RFC 3339 with an offset.", extra_json_schema={"format": "date-time"})
]
Length = Annotated[str | float, Meta(description="A duration: seconds, or a text such as 90s, 15m, 1h30m or PT15M.")]
Zone = Annotated[str, Meta(max_length=64, description="A name from the time zone database, such as Europe/Berlin.")]
Args = Annotated[dict[str, Any], Meta(description="The arguments of the task, by name.")]
JobId = Annotated[str, Meta(pattern=r"^job_[0-9a-hjkmnp-tv-z]{26}\Z")]
RateText = Annotated[str, Meta(max_length=20, description="Maximum starts in a period: `100/m`, `10/30s`.")]
ScheduleText = Annotated[str, Meta(max_length=500)]
PriorityName = Literal["HIGH", "MEDIUM", "LOW"]
DeliveryName = Literal["at_least_once", "at_most_once"]


class Request(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base of all request bodies."""
