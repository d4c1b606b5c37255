"""What a submission says beyond task, arguments and schedule: checked, and made the options of a job."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

import msgspec

from duetime.duration import parse_duration
from duetime.errors import InvalidInput
from duetime.model.job import Options
from duetime.model.lane import Tier
from duetime.model.limits import check_running, parse_rate
from duetime.model.name import check_key, check_name
from duetime.model.policy import (
    Misfire,
    MisfireMode,
    Overlap,
    is_amount,
    make_jitter,
    make_max_runs,
    make_misfire,
    make_overlap,
)
from duetime.model.retry import RetryPolicy

Priority = Literal["HIGH", "MEDIUM", "LOW"]
Delivery = Literal["at_least_once", "at_most_once"]
Duration = str | float | timedelta
MOST_RETRIES = 1000
_LONGEST_WARNING = 7 * 86_400


def make_options(
    base: Options,
    *,
    job_name: str | None = None,
    tags: Sequence[str] = (),
    retries: int | None = None,
    retry: RetryPolicy | None = None,
    delivery: Delivery | None = None,
    key: str | None = None,
    concurrency_key: str | None = None,
    concurrency: int | None = None,
    rate_key: str | None = None,
    rate: str | None = None,
    warn_after: Duration | None = None,
) -> Options:
    """The options of a job: what the task says, changed by what the submission says."""
    base = add_warning(add_keys(base, concurrency_key, concurrency, rate_key, rate), warn_after)
    if job_name is None and not tags and retries is None and retry is None and delivery is None and key is None:
        return base
    policy = base.retry if retry is None else check_retry(retry)
    if retries is not None:
        policy = msgspec.structs.replace(policy, retries=_count(retries, "retries"))
    at_most_once = base.at_most_once if delivery is None else check_delivery(delivery)
    if at_most_once:
        if retries or (retry is not None and retry.retries):
            raise InvalidInput(
                "at_most_once means that nothing is tried again", field="retries", remedy="leave retries out"
            )
        policy = msgspec.structs.replace(policy, retries=0)
    return msgspec.structs.replace(
        base,
        name=base.name if job_name is None else check_key(job_name, "job_name"),
        tags=check_tags(tags) or base.tags,
        retry=policy,
        at_most_once=at_most_once,
        key=base.key if key is None else key,
    )


def add_warning(options: Options, warn_after: Duration | None) -> Options:
    """The options of a job whose runs are told of when they take longer than usual."""
    if warn_after is None:
        return options
    seconds = check_duration(warn_after, "warn_after").total_seconds()
    if not 1 <= seconds <= _LONGEST_WARNING:
        raise InvalidInput(f"{warn_after} cannot be waited for", field="warn_after", remedy="1 s to 7 days")
    return msgspec.structs.replace(options, warn_after=seconds)


def add_keys(
    options: Options, concurrency_key: str | None, concurrency: int | None, rate_key: str | None, rate: str | None
) -> Options:
    """The options of a job whose runs are under limits of their own."""
    if concurrency_key is None and concurrency is None and rate_key is None and rate is None:
        return options
    made = msgspec.structs.replace(
        options,
        concurrency_key=options.concurrency_key
        if concurrency_key is None
        else check_key(concurrency_key, "concurrency_key"),
        concurrency=options.concurrency if concurrency is None else _limit(concurrency, "concurrency"),
        rate_key=options.rate_key if rate_key is None else check_key(rate_key, "rate_key"),
        rate=options.rate if rate is None else _rate(rate),
    )
    if concurrency is not None and made.concurrency_key is None:
        raise InvalidInput("concurrency goes with concurrency_key", field="concurrency", remedy="give both")
    if (made.rate is None) != (made.rate_key is None):
        field = "rate" if made.rate is None else "rate_key"
        raise InvalidInput("rate and rate_key go together", field=field, remedy="such as rate_key='mail', rate='100/m'")
    return made


def add_policies(
    options: Options,
    misfire: Misfire | MisfireMode | None,
    overlap: Overlap | None,
    jitter: Duration | None,
    max_runs: int | None,
) -> Options:
    """The options of a recurring job, with its policies."""
    if misfire is None and overlap is None and jitter is None and max_runs is None:
        return options
    return msgspec.structs.replace(
        options,
        misfire=options.misfire if misfire is None else make_misfire(misfire),
        overlap=options.overlap if overlap is None else make_overlap(overlap),
        jitter=options.jitter if jitter is None else make_jitter(jitter),
        max_runs=options.max_runs if max_runs is None else make_max_runs(max_runs),
    )


def check_retry(policy: RetryPolicy) -> RetryPolicy:
    """A policy that can be stored: exception classes become their names."""
    if not isinstance(policy, RetryPolicy):
        raise InvalidInput(
            f"must be a RetryPolicy, not {type(policy).__name__}", field="retry", remedy="duetime.RetryPolicy(…)"
        )
    for field in ("base", "factor", "cap"):
        value = getattr(policy, field)
        if not is_amount(value):
            raise InvalidInput(f"{value!r} is not a number of seconds or a factor", field=f"retry.{field}")
    return msgspec.structs.replace(
        policy,
        retries=_count(policy.retries, "retry.retries"),
        lost_retries=_count(policy.lost_retries, "retry.lost_retries"),
        retry_on=_error_names(policy.retry_on, "retry.retry_on"),
        give_up_on=_error_names(policy.give_up_on, "retry.give_up_on"),
    )


def check_tags(tags: Sequence[str]) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        raise InvalidInput(f"{tags!r} is not a list of tags", field="tags", remedy="such as ['billing', 'eu']")
    return tuple(check_name(tag, "tags") for tag in tags)


def check_delivery(delivery: str) -> bool:
    if delivery not in ("at_least_once", "at_most_once"):
        raise InvalidInput(f"{delivery!r} is not a delivery", field="delivery", remedy="at_least_once or at_most_once")
    return delivery == "at_most_once"


def check_tier(priority: str) -> Tier:
    if not isinstance(priority, str) or priority not in Tier.__members__:
        raise InvalidInput(f"{priority!r} is not a priority", field="priority", remedy="HIGH, MEDIUM or LOW")
    return Tier[priority]


def check_duration(value: Duration, field: str) -> timedelta:
    try:
        return parse_duration(value)
    except (ValueError, TypeError) as error:
        raise InvalidInput(str(error), field=field) from None


def _count(value: object, field: str) -> int:
    if type(value) is not int or not 0 <= value <= MOST_RETRIES:
        raise InvalidInput(f"{value!r} is not a number of retries", field=field, remedy=f"0 to {MOST_RETRIES}")
    return value


def _limit(value: object, field: str) -> int:
    if type(value) is not int:
        raise InvalidInput(f"{value!r} is not a number of runs", field=field, remedy="a whole number from 1")
    return check_running(value, field)


def _rate(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{value!r} is not a rate", field="rate", remedy="such as 100/m")
    return str(parse_rate(value))


def _error_names(names: object, field: str) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InvalidInput(f"{names!r} is not a tuple", field=field, remedy="such as (ConnectionError, 'shop.SoldOut')")
    return tuple(_error_name(name, field) for name in names)


def _error_name(name: object, field: str) -> str:
    if isinstance(name, type) and issubclass(name, BaseException):
        return f"{name.__module__}.{name.__qualname__}".removeprefix("builtins.")
    return check_name(name, field)
