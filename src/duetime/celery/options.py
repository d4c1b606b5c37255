"""Celery's options in duetime's words.

Three cases, and no fourth: an option is translated, it has the same name in duetime and is passed on, or it is refused
with the remedy.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import msgspec

from duetime.clock import SystemClock
from duetime.errors import InvalidInput
from duetime.model.retry import RetryPolicy

_TASK_REMEDIES = {
    "after_return": "use on_failure of duetime.App, or code in the function",
    "base": "tasks are functions: put shared code into a decorator or a function",
    "compression": "remove it: arguments are stored as JSON",
    "delivery_mode": "remove it: every job is durable",
    "exchange": "use queue=",
    "on_failure": "use on_failure of duetime.App",
    "on_retry": "use on_failure of duetime.App: it is also called when the attempt is retried",
    "on_success": "write it at the end of the function, or use a chain",
    "pydantic": "remove it: annotations are always obeyed",
    "request_stack": "remove it",
    "resultrepr_maxsize": "remove it",
    "retries": "use max_retries=",
    "retry": "use max_retries=, autoretry_for= and retry_backoff=; or move the task to @jobs.task(retry=…)",
    "routing_key": "use queue=",
    "send_events": "remove it: every run is recorded",
    "soft_time_limit": "no exception interrupts a function: use time_limit=, or check "
    "duetime.current_context().cancelled with timeout=",
    "store_eager_result": "remove it",
    "store_errors_even_if_ignored": "remove it: errors are always stored",
    "throws": "remove it: raise duetime.GiveUp(…) for an expected failure",
    "trail": "remove it: a graph records its nodes",
    "typing": "remove it: arguments are always checked",
}
_CALL_REMEDIES = {
    "add_to_parent": "remove it: use chain, group or chord",
    "chord": "use chord(header)(body)",
    "compression": "remove it: arguments are stored as JSON",
    "exchange": "use queue=",
    "group_id": "use group(…)",
    "headers": "pass it as an argument",
    "ignore_result": "give it to the decorator",
    "link": "use chain(first, second), or depends_on= with the id of a job",
    "link_error": "use on_failure of duetime.App, or a graph with duetime.Needs([…], on='finished')",
    "producer": "use connection= with a database connection, to submit inside your transaction",
    "replaced_task_nesting": "remove it",
    "retry": "remove it: a submission either is stored or raises",
    "retry_policy": "remove it: a submission either is stored or raises",
    "root_id": "remove it",
    "routing_key": "use queue=",
    "shadow": "use name=",
    "soft_time_limit": "no exception interrupts a function: use time_limit= of the decorator",
    "task_id": "ids are duetime's own: keep the id of the result; to submit once, give idempotency_key=",
    "time_limit": "give it to the decorator, or give timeout=",
}
_SECONDS = {"s": 1, "m": 60, "h": 3600}


class Retrying(msgspec.Struct, frozen=True):
    """What a task retries, as Celery declares it."""

    limit: int = 3
    delay: float = 180.0
    on: tuple[type[BaseException], ...] = ()
    not_on: tuple[type[BaseException], ...] = ()
    backoff: float = 0.0
    """Seconds of the first wait. Each further wait is twice as long. 0: every wait is `delay`."""
    longest: float = 600.0
    jitter: bool = True

    def bound(self, retries: int) -> float:
        """Seconds to wait before the next automatic retry, before jitter."""
        return min(self.longest, self.backoff * 2.0 ** min(retries, 64)) if self.backoff else self.delay


def read_retrying(given: dict[str, Any]) -> Retrying:
    """Remove the options about retries from those of a decorator, and return their meaning."""
    more = dict(given.pop("retry_kwargs", None) or {})
    limit = more.pop("max_retries", given.pop("max_retries", 3))
    delay = more.pop("countdown", given.pop("default_retry_delay", 180))
    if more:
        raise InvalidInput(
            "is not supported", field=f"retry_kwargs.{next(iter(more))}", remedy="max_retries, countdown"
        )
    if limit is None:
        raise InvalidInput(
            "`max_retries=None` (retry forever) is not supported",
            field="max_retries",
            remedy="a number up to 1000; raise duetime.Snooze(…) to run again without spending an attempt",
        )
    if type(limit) is not int or not 0 <= limit <= 1000:
        raise InvalidInput(f"{limit!r} is not a number of retries", field="max_retries", remedy="0 to 1000")
    backoff = given.pop("retry_backoff", False)
    return Retrying(
        limit,
        read_seconds(delay, "default_retry_delay"),
        _classes(given.pop("autoretry_for", ()), "autoretry_for"),
        _classes(given.pop("dont_autoretry_for", ()), "dont_autoretry_for"),
        1.0 if backoff is True else read_seconds(backoff or 0, "retry_backoff"),
        read_seconds(given.pop("retry_backoff_max", 600), "retry_backoff_max"),
        bool(given.pop("retry_jitter", True)),
    )


def task_options(given: dict[str, Any], name: str, retrying: Retrying | None) -> dict[str, Any]:
    """The options of a decorator, after those of retries, for `App.task`. `retrying` is None if the task never asks for
    a retry."""
    _refuse(given, _TASK_REMEDIES)
    options = dict(given)
    if options.pop("acks_late", True) is not True or options.pop("reject_on_worker_lost", True) is not True:
        raise InvalidInput(
            "`acks_late=False` is not supported: the run would be lost with its worker",
            field="acks_late",
            remedy="omit it; or move the task to @jobs.task(delivery='at_most_once')",
        )
    if options.pop("serializer", "json") != "json":
        raise InvalidInput("is not json", field="serializer", remedy="arguments and results are JSON by annotation")
    options.pop("track_started", None)  # every start is recorded
    if (limit := options.pop("time_limit", None)) is not None:
        # Celery kills the process of the task, and so does duetime; a thread could only be asked.
        options |= {"timeout": read_seconds(limit, "time_limit"), "process": True}
    if (rate := options.pop("rate_limit", None)) is not None:
        options |= {"rate": read_rate(rate), "rate_key": name}
    if (expires := options.pop("expires", None)) is not None:
        options["expires_in"] = read_seconds(expires, "expires")
    _check_priority(options)
    retries = 0 if retrying is None else retrying.limit
    delay = 1.0 if retrying is None else retrying.backoff or retrying.delay
    # Errors that the task did not turn into a retry end the run; only a lost worker or a timeout is retried besides.
    policy = RetryPolicy(retries=retries, base=delay, cap=600.0, retry_on=("duetime.celery.Retry",))
    return {"retry": policy, **options}


def call_options(given: Mapping[str, Any], zone: tzinfo) -> dict[str, Any]:
    """The options of `apply_async`, for a submission. `zone` is that of times without offset."""
    _refuse(given, _CALL_REMEDIES)
    options = dict(given)
    if options.pop("serializer", "json") != "json":
        raise InvalidInput("is not json", field="serializer", remedy="arguments and results are JSON by annotation")
    countdown, eta, expires = (options.pop(name, None) for name in ("countdown", "eta", "expires"))
    if countdown is not None and eta is not None:
        raise InvalidInput("is given beside `countdown`", field="eta", remedy="give one of them")
    if countdown is not None:
        options["run_in"] = read_seconds(countdown, "countdown")
    if eta is not None:
        options["run_at"] = eta = _moment(eta, "eta", zone)
    if expires is not None:
        options["expires_in"] = _lifetime(expires, options.get("run_in", 0.0), eta, zone)
    _check_priority(options)
    return {name: value for name, value in options.items() if value is not None}


def read_rate(value: object) -> str:
    """`10/m`, or a number of starts a second. Celery counts on each worker, duetime on all of them together."""
    count, _, unit = str(value).partition("/")
    try:
        number = float(count)
        seconds = _SECONDS[unit.strip() or "s"]
    except (ValueError, KeyError):
        number, seconds = 0.0, 1
    if number < 1 or number != int(number):
        raise InvalidInput(f"{value!r} is not a rate", field="rate_limit", remedy="such as 100/m; 1/120s for less")
    return f"{int(number)}/{seconds}s"


def read_seconds(value: object, field: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{value!r} is not a number of seconds", field=field)
    return float(value)


def _lifetime(expires: object, delay: float, eta: datetime | None, zone: tzinfo) -> float:
    """How long after its due time a run expires. Celery counts from the submission."""
    if isinstance(expires, datetime | str):
        due = eta or SystemClock().now() + timedelta(seconds=delay)
        seconds = (_moment(expires, "expires", zone) - due).total_seconds()
    else:
        passed = delay if eta is None else (eta - SystemClock().now()).total_seconds()
        seconds = read_seconds(expires, "expires") - passed
    if seconds < 1:
        raise InvalidInput("it would expire before it is due", field="expires", remedy="a second later, or more")
    return seconds


def _moment(value: object, field: str, zone: tzinfo) -> datetime:
    if isinstance(value, str):
        with suppress(ValueError):
            value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        raise InvalidInput(f"{value!r} is not a datetime", field=field)
    return (value if value.tzinfo is not None else value.replace(tzinfo=zone)).astimezone(UTC)


def _check_priority(options: Mapping[str, Any]) -> None:
    if isinstance(options.get("priority"), int):
        raise InvalidInput(
            f"{options['priority']} means opposite things with Redis and with RabbitMQ",
            field="priority",
            remedy="'HIGH', 'MEDIUM' or 'LOW'",
        )


def _classes(value: object, field: str) -> tuple[type[BaseException], ...]:
    if isinstance(value, list | tuple) and all(isinstance(each, type) for each in value):
        return tuple(value)
    raise InvalidInput(f"{value!r} is not a tuple of exception classes", field=field, remedy="such as (OSError,)")


def _refuse(given: Mapping[str, Any], remedies: Mapping[str, str]) -> None:
    for name in given:
        if name in remedies:
            raise InvalidInput("is not supported by duetime.celery", field=name, remedy=remedies[name])
