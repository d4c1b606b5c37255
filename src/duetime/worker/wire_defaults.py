"""What a task says of its jobs, in the words of the worker protocol."""

from typing import cast

import msgspec

from duetime.model.defaults import NOTHING_SAID, Defaults
from duetime.model.job import DEFAULT_OPTIONS
from duetime.wire.fields import PriorityName
from duetime.wire.jobs import RetryBody
from duetime.wire.workers import TaskDefaults


class _SaidRetry(RetryBody, frozen=True, omit_defaults=True):
    """A policy without what holds anyway: a worker tells those of all its tasks at once."""


def wire_defaults(defaults: Defaults) -> TaskDefaults:
    """Only what was said: a server need not be told what holds anyway."""
    options = defaults.options
    usual = msgspec.structs.asdict(DEFAULT_OPTIONS.retry)
    retry = {name: value for name, value in msgspec.structs.asdict(options.retry).items() if value != usual[name]}
    return TaskDefaults(
        queue=None if defaults.queue == NOTHING_SAID.queue else defaults.queue,
        priority=None if defaults.tier == NOTHING_SAID.tier else cast(PriorityName, defaults.tier.name),
        retry=_SaidRetry(**retry) if retry else None,
        timeout=None if defaults.timeout is None else defaults.timeout.total_seconds(),
        delivery="at_most_once" if options.at_most_once else None,
        concurrency_key=options.concurrency_key,
        concurrency=None if options.concurrency_key is None else options.concurrency,
        rate_key=options.rate_key,
        rate=options.rate,
        warn_after=options.warn_after,
    )
