"""Requests and answers about sources."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from duetime.model.source import OnBad, SourceBroker
from duetime.spec.fields import Request

SourceStatus = Literal["reading", "waiting", "idle", "paused", "stopped"]


class SourceRequest(Request, frozen=True):
    """A place at a broker whose messages create jobs."""

    broker: SourceBroker
    job: Annotated[
        dict[str, Any],
        Meta(
            max_length=64,
            description='The fields of a job. `{"$from": "body.id"}` stands for a value of the message.',
        ),
    ]
    key: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=500,
                description="The value by which repeated messages are recognised, such as `body.order.id`. Null: the"
                " message itself.",
            ),
        ]
        | None
    ) = None
    on_bad: Annotated[
        OnBad,
        Meta(description="Whether a message that cannot become a job is skipped and recorded, or stops the source."),
    ] = "skip"
    paused: Annotated[bool, Meta(description="Read nothing for now.")] = False


class BadMessage(Struct, frozen=True):
    message: str
    """The broker's id of the message."""
    error: str
    at: datetime


class SourceView(Struct, frozen=True):
    name: str
    status: SourceStatus
    """`idle`: no node reads it."""
    reason: str | None
    """Why it waits, or has stopped."""
    broker: SourceBroker
    job: dict[str, Any]
    key: str | None
    on_bad: OnBad
    received: int
    created: int
    repeated: int
    """Messages whose job existed already."""
    bad: int
    bad_messages: tuple[BadMessage, ...]
    """The newest ones."""


class SourceList(Struct, frozen=True):
    items: tuple[SourceView, ...]
