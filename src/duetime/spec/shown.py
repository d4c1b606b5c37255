"""Options as answers show them, and back."""

from collections.abc import Mapping
from typing import Any, Protocol

from duetime.model.job import Options
from duetime.model.lane import Tier
from duetime.spec.derived import OPTIONS
from duetime.spec.resolved import STORED

_NOT_STORED = {"queue", "priority", "timeout", "delivery"}
SHOWN = {name: declared for name, declared in OPTIONS.items() if name in STORED or name in _NOT_STORED}
"""The options that a job stores. `retries` is a part of `retry`."""


class HasOptions(Protocol):
    """A job, or the defaults of a task."""

    @property
    def queue(self) -> str: ...
    @property
    def tier(self) -> Tier: ...
    @property
    def timeout_ms(self) -> int | None: ...
    @property
    def options(self) -> Options: ...


def shown_options(job: HasOptions) -> dict[str, Any]:
    """All options of a job in JSON types."""
    options = job.options
    found: dict[str, Any] = {name: getattr(options, name) for name in STORED}
    found["queue"], found["priority"] = job.queue, Tier(job.tier)
    found["timeout"] = None if job.timeout_ms is None else job.timeout_ms / 1000
    found["delivery"] = options.at_most_once
    return {name: None if found[name] is None else declared.kind.show(found[name]) for name, declared in SHOWN.items()}


def read_shown(shown: Mapping[str, Any]) -> Options:
    """The options of a job from an answer that shows it."""
    fields = {name: OPTIONS[name].kind.read(value, name) for name in STORED if (value := shown[name]) is not None}
    return Options(**fields, at_most_once=OPTIONS["delivery"].read(shown["delivery"]))
