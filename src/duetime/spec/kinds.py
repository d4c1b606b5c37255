"""The kinds of option values: in Python, in JSON, and on the command line.

A kind reads a value in any of these forms into the stored value, and refuses invalid ones. It also writes a Python
value as JSON, for a request to a server.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import msgspec

from duetime import ids
from duetime.duration import parse_duration
from duetime.errors import InvalidInput, not_a_choice
from duetime.model.dependency import DependsOn
from duetime.model.lane import Tier
from duetime.model.limits import parse_rate
from duetime.model.name import check_name
from duetime.model.policy import Misfire, is_amount, make_misfire, make_overlap
from duetime.model.retry import RetryPolicy
from duetime.model.schedule import After, Exclusion, zone_name
from duetime.spec.bodies import ExcludeBody, MisfireBody, RetryBody
from duetime.spec.dependencies import Needs, read_after, read_depends_on
from duetime.spec.identity import job_identity

S = TypeVar("S", bound=msgspec.Struct)
MOST_RETRIES = 1000
MOST_TAGS = 50

Read = Callable[[Any, str], Any]


def _as_it_is(value: Any, field: str) -> Any:
    return value


def _plain(value: Any) -> Any:
    return value


class Kind(NamedTuple):
    """One kind of value."""

    wire: Any
    """Its JSON type, as a msgspec type."""
    read: Read = _as_it_is
    """From a Python or JSON value and the name of the field to the stored value; raises `InvalidInput`."""
    write: Callable[[Any], Any] = _plain
    """From a Python value to JSON."""
    answer: Any = None
    """The JSON type in answers, where it is narrower than `wire`."""
    show: Callable[[Any], Any] = _plain
    """From the stored value to JSON in answers."""
    flag: Any = str
    """The type of its command-line flag."""
    typed: Callable[[Any], Any] = _plain
    """From the text of a flag to JSON."""
    is_checked: bool = False
    """Whether the JSON type validates everything that `read` does, so that a decoded value need not be read again."""


class Option(NamedTuple):
    """The declaration of an option, beside its kind."""

    doc: str
    example: Any = None
    at_least: float | None = None
    at_most: float | None = None
    """Bounds of a number, or of a duration in seconds."""
    flag: str | None = None
    """The command-line flag, where it is not `--` and the name."""


# Texts.


def read_name(value: object, field: str) -> str:
    return check_name(value, field)


def read_tags(value: Any, field: str) -> tuple[str, ...]:
    if type(value) not in (list, tuple) and (isinstance(value, str) or not isinstance(value, Sequence)):
        raise InvalidInput(f"{value!r} is not a list of tags", field=field, remedy="such as ['billing', 'eu']")
    if len(value) > MOST_TAGS:
        raise InvalidInput(f"{len(value)} tags are too many", field=field, remedy=f"at most {MOST_TAGS}")
    return tuple(check_name(tag, field) for tag in value)


def read_rate(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{value!r} is not a rate", field=field, remedy="such as 100/m")
    return str(parse_rate(value, field))


# Choices.


def read_tier(value: object, field: str) -> Tier:
    if not isinstance(value, str) or value not in Tier.__members__:
        raise not_a_choice(value, Tier.__members__, field)
    return Tier[value]


def read_at_most_once(value: object, field: str) -> bool:
    if value not in (choices := ("at_least_once", "at_most_once")):
        raise not_a_choice(value, choices, field)
    return value == "at_most_once"


def show_delivery(at_most_once: bool) -> str:
    return "at_most_once" if at_most_once else "at_least_once"


def read_overlap(value: object, field: str) -> str:
    return make_overlap(value)


# Numbers and durations.


def read_count(value: object, field: str) -> int:
    if type(value) is not int:
        raise InvalidInput(f"{value!r} is not a whole number", field=field, remedy="such as 3")
    return value


def read_seconds(value: object, field: str) -> float:
    return read_duration(value, field).total_seconds()


def read_duration(value: Any, field: str) -> timedelta:
    try:
        return parse_duration(value)
    except (ValueError, TypeError) as error:
        raise InvalidInput(str(error), field=field) from None


def write_length(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


def write_moment(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def read_zone(value: object, field: str) -> object:
    """A name; whether it is one is checked with the schedule."""
    return zone_name(value)


# Objects.


def plainest(policy: S) -> S:
    """The same policy with its default parts replaced by the shared default objects, so that equal policies are stored
    alike."""
    usual = type(policy)()
    differ = {name: part for name, part in msgspec.structs.asdict(policy).items() if part != getattr(usual, name)}
    return type(policy)(**differ)


def read_retry(value: object, field: str) -> RetryPolicy:
    """A policy that can be stored: exception classes become their names."""
    if isinstance(value, RetryBody):
        value = RetryPolicy(**msgspec.structs.asdict(value))
    elif isinstance(value, Mapping):
        value = RetryPolicy(**msgspec.structs.asdict(_convert(value, RetryBody, field)))
    if not isinstance(value, RetryPolicy):
        raise InvalidInput(
            f"must be a RetryPolicy, not {type(value).__name__}",
            field=field,
            remedy=f"retries={value}" if type(value) is int else "duetime.RetryPolicy(…)",
        )
    for part in ("base", "factor", "cap"):
        if not is_amount(amount := getattr(value, part)):
            raise InvalidInput(f"{amount!r} is not a number of seconds or a factor", field=f"{field}.{part}")
    checked = msgspec.structs.replace(
        value,
        retries=_retries(value.retries, f"{field}.retries"),
        lost_retries=_retries(value.lost_retries, f"{field}.lost_retries"),
        retry_on=_error_names(value.retry_on, f"{field}.retry_on"),
        give_up_on=_error_names(value.give_up_on, f"{field}.give_up_on"),
    )
    return plainest(checked)


def write_retry(value: Any) -> Any:
    if not isinstance(value, RetryPolicy | RetryBody):
        return value
    policy, usual = msgspec.structs.asdict(read_retry(value, "retry")), msgspec.structs.asdict(RetryPolicy())
    return {name: part for name, part in policy.items() if part != usual[name]}


def show_retry(policy: RetryPolicy) -> RetryBody:
    return RetryBody(**msgspec.structs.asdict(policy))


def read_misfire(value: object, field: str) -> Misfire:
    if isinstance(value, MisfireBody):
        value = Misfire(**msgspec.structs.asdict(value))
    elif isinstance(value, Mapping):
        value = Misfire(**msgspec.structs.asdict(_convert(value, MisfireBody, field)))
    return plainest(make_misfire(value))


def write_misfire(value: Any) -> Any:
    return msgspec.structs.asdict(value) if isinstance(value, Misfire) else value


def show_misfire(policy: Misfire) -> MisfireBody:
    return MisfireBody(**msgspec.structs.asdict(policy))


def read_exclude(value: object, field: str) -> object:
    return msgspec.structs.asdict(value) if isinstance(value, ExcludeBody) else value


def write_exclude(value: Any) -> Any:
    return msgspec.to_builtins(value.holding(()) if isinstance(value, Exclusion) else value)


def read_parents(value: object, field: str) -> DependsOn | None:
    return read_depends_on(value)


def write_parents(value: Any) -> Any:
    if isinstance(value, Needs):
        jobs = [ids.show("job", job_identity(parent)) for parent in value.parents]
        return {"jobs": jobs, "need": value.need, "on": value.on, "otherwise": value.otherwise}
    if isinstance(value, Mapping) or not isinstance(value, Sequence) or isinstance(value, str):
        return value
    return [ids.show("job", job_identity(parent)) for parent in value]


def read_chain(value: object, field: str) -> After:
    return read_after(value)


def write_chain(value: Any) -> Any:
    chain = read_after(value)
    return {"job": ids.show("job", chain.job), "on": chain.on}


def _convert(value: Mapping[str, Any], type: Any, field: str) -> Any:
    try:
        return msgspec.convert(value, type)
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error), field=field) from None


def _retries(value: object, field: str) -> int:
    if type(value) is not int or not 0 <= value <= MOST_RETRIES:
        raise InvalidInput(f"{value!r} is not a number of retries", field=field, remedy=f"0 to {MOST_RETRIES}")
    return value


def _error_names(names: object, field: str) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InvalidInput(f"{names!r} is not a tuple", field=field, remedy="such as (ConnectionError, 'shop.SoldOut')")
    return tuple(_error_name(name, field) for name in names)


def _error_name(name: object, field: str) -> str:
    if isinstance(name, type) and issubclass(name, BaseException):
        return f"{name.__module__}.{name.__qualname__}".removeprefix("builtins.")
    return check_name(name, field)
