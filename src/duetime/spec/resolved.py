"""From options to a job: the only place that knows the rules between options.

`resolve(base, given)` reads each option by its kind, then applies the rules between options. The result is a job
without an id and without arguments. A task, a configured task and the equal items of a batch each build theirs once.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from copy import copy
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from duetime.errors import InvalidInput
from duetime.ids import new_id
from duetime.model.defaults import Defaults, decode_defaults, encode_defaults
from duetime.model.dependency import DependsOn
from duetime.model.edit import Changes
from duetime.model.job import (
    DEFAULT_OPTIONS,
    DEFAULT_QUEUE,
    Job,
    NewJob,
    Options,
    Said,
    encode_options,
)
from duetime.model.lane import LaneKey, Tier
from duetime.model.retry import RetryPolicy
from duetime.model.schedule import (
    BOUNDS,
    KINDS,
    NOW,
    After,
    Once,
    Schedule,
    check_zone,
    edited,
    make_schedule,
    needs_now,
)
from duetime.spec.derived import OF_EDITS, OF_TENANTS, OPTIONS, POLICIES
from duetime.spec.kinds import plainest, read_retry
from duetime.spec.request_hash import request_hash

TIMES = frozenset({*KINDS, *BOUNDS, "after"})
STORED = OPTIONS.keys() & set(Options.__struct_fields__)
"""Options that are stored as they are read, in the field of `Options` with their name."""
HANDLED = TIMES | {"queue", "priority", "timeout", "retries", "delivery", "depends_on", "idempotency_key"}
"""Options that have their own column, or a rule below."""


_REPEATS = (*POLICIES, "max_runs")
"""Options that require a recurring schedule."""
_RULES = TIMES | {"retries", "retry", "delivery", "depends_on", "timeout", "concurrency", "rate", "rate_key", *_REPEATS}
"""Options that are not simply stored: those with a rule between them."""
_USUAL = msgspec.structs.asdict(DEFAULT_OPTIONS)
"""These exact objects: only they are omitted when options are stored, so that equal options are stored alike."""
_COLUMNS = {"queue": "queue", "priority": "tier", "idempotency_key": "idempotency_key"}
_READ = {name: declared.read for name, declared in OPTIONS.items()}
_READ_DECODED = {name: declared.read_decoded for name, declared in OPTIONS.items()}


class Resolved(msgspec.Struct, frozen=True):
    """A job without its id, task and arguments."""

    queue: str = DEFAULT_QUEUE
    tier: Tier = Tier.MEDIUM
    timeout_ms: int | None = None
    options: Options = DEFAULT_OPTIONS
    stored_options: bytes | None = None
    schedule: Schedule = NOW
    said: Said | None = None
    depends_on: DependsOn | None = None
    idempotency_key: str | None = None
    retry: RetryPolicy = RetryPolicy()
    """The policy before `at_most_once` takes its retries away: `at_least_once` brings them back."""
    zone: str = "UTC"
    """The time zone of a schedule that names none."""
    policies: tuple[tuple[str, Any], ...] = ()
    """Options that only a recurring schedule takes over."""
    delivery_yields: bool = False
    """Whether `at_most_once` is the default of a tenant, which gives way to retries."""

    def job(
        self,
        tenant_id: int,
        task: str,
        args: bytes,
        *,
        job_id: UUID | None = None,
        idempotency_key: str | None = None,
    ) -> NewJob:
        """A job with these arguments. Its own idempotency key takes precedence over `idempotency_key`."""
        options = self.options
        lane = LaneKey(tenant_id, self.queue, self.tier, task, keyed=options.is_keyed)
        key = options.key
        idempotency_key = self.idempotency_key or idempotency_key
        return NewJob(
            id=job_id or new_id(),
            lane=lane,
            schedule=self.schedule,
            args=args,
            options=self.stored_options,
            timeout_ms=self.timeout_ms,
            key=key,
            idempotency_key=idempotency_key,
            fingerprint=b"" if key is None and idempotency_key is None else self.fingerprint(task, args),
            said=self.said,
            depends_on=self.depends_on,
        )

    def fingerprint(self, task: str, args: bytes) -> bytes:
        """Decides whether two requests ask for the same thing."""
        return request_hash(
            queue=self.queue,
            tier=self.tier,
            task=task,
            schedule=self.schedule,
            args=args,
            options=self.stored_options,
            timeout_ms=self.timeout_ms,
            said=self.said,
            depends_on=self.depends_on,
        )


NOTHING_GIVEN = Resolved()


@lru_cache(maxsize=4096)
def base_of(tenant: Defaults, task: Defaults = None) -> Resolved:
    """The starting point for jobs: the defaults of a tenant, then those of a task. Never raises: options that another
    release has stored, and that this one cannot read, must not stop submissions."""
    base = NOTHING_GIVEN
    if tenant is not None:
        with suppress(InvalidInput):
            base = tenant_base(decode_defaults(tenant))
    if task is not None:
        with suppress(InvalidInput):
            base = resolve(base, decode_defaults(task))
    return base


def tenant_base(given: Mapping[str, Any]) -> Resolved:
    """The starting point for the jobs of a tenant with these defaults. They are checked like the options of a job. A
    default that a job cannot have, because it runs once or contradicts what the job says, does not apply to it."""
    for name in given:
        if name not in OF_TENANTS:
            raise _unknown(name, OF_TENANTS)
    later = {name for name in given if name in POLICIES or name == "tz"}
    base = resolve(NOTHING_GIVEN, {name: value for name, value in given.items() if name not in later})
    zone = given.get("tz")
    return msgspec.structs.replace(
        base,
        zone=NOTHING_GIVEN.zone if zone is None else check_zone(zone),
        policies=tuple((name, _READ[name](given[name])) for name in POLICIES if given.get(name) is not None),
        delivery_yields="delivery" in given,
    )


def resolve(
    base: Resolved, given: Mapping[str, Any], *, now: datetime | None = None, decoded: bool = False
) -> Resolved:
    """Apply these options to `base`; None is the same as not given. `now` is needed if `is_told_by_day`. `decoded`: the
    JSON types of the options have validated the values."""
    readers = _READ_DECODED if decoded else _READ
    read: dict[str, Any] = {}
    for name, value in given.items():
        if value is not None:
            if name not in readers:
                raise _unknown(name, OPTIONS)
            read[name] = readers[name](value)
    return _apply(base, read, now) if read else base


def written_defaults(given: Mapping[str, Any]) -> Defaults:
    """Default options as they are stored: equal ones alike, in whichever form they were given."""
    return encode_defaults({name: OPTIONS[name].kind.write(each) for name, each in given.items() if each is not None})


def merged(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Options of which the later ones count before the earlier ones. An option that replaces another removes it: a
    schedule is given as a whole, a policy includes its number of retries, and `at_most_once` means none. A list or dict
    is copied: a task keeps its options, and the caller may go on to change what it gave."""
    given = {
        name: copy(value) if isinstance(value, (list, dict)) else value
        for name, value in later.items()
        if value is not None
    }
    if not earlier:
        return given
    replaced: set[str] = set()
    if not TIMES.isdisjoint(given):
        replaced |= TIMES
    if "retry" in given:
        replaced.add("retries")
    if given.get("delivery") == "at_most_once":
        replaced.add("retries")
        if (policy := earlier.get("retry")) is not None:
            given.setdefault("retry", msgspec.structs.replace(read_retry(policy, "retry"), retries=0))
    return {**{name: value for name, value in earlier.items() if name not in replaced}, **given}


def check_once(schedule: Schedule, given: Mapping[str, Any]) -> None:
    """Check that a job that is submitted, not scheduled, runs once. `given` has its options: only `when` says both."""
    if not isinstance(schedule, Once):
        field = next(name for name in (*KINDS, "after") if given.get(name) is not None)
        raise InvalidInput(f"{given[field]!r} is a recurring schedule", field=field, remedy="use schedule")


def is_told_by_day(given: Mapping[str, Any], zone: str = NOTHING_GIVEN.zone) -> bool:
    """Whether the schedule depends on the current day: words, and delays in calendar days or months. `zone` is that of
    a schedule that names none."""
    when, run_in = given.get("when"), given.get("run_in")
    return (when is not None or run_in is not None) and needs_now(run_in=run_in, when=when, tz=given.get("tz") or zone)


def edit(
    job: Job,
    given: Mapping[str, Any],
    *,
    now: datetime | None = None,
    decoded: bool = False,
    zone: str = NOTHING_GIVEN.zone,
) -> Changes:
    """The changes that these options make to a job; None removes an option. `zone` is that of a schedule that gets its
    first one."""
    base = Resolved(job.queue, job.tier, job.timeout_ms, job.options, schedule=job.schedule, retry=job.options.retry)
    read: dict[str, Any] = {}
    readers = _READ_DECODED if decoded else _READ
    for name, value in given.items():
        if name not in OF_EDITS:
            raise _unknown(name, OF_EDITS)
        if value is not None:
            read[name] = readers[name](value)
        elif not OF_EDITS[name].is_removable:
            raise InvalidInput("cannot be removed", field=name, remedy="omit it, or set a value")
    times = TIMES & given.keys()
    if times:
        timing = {name: read.pop(name) for name in times if name in read}
        schedule = edited(job.schedule, timing, times - timing.keys(), now=now, usual_zone=zone)
        base = msgspec.structs.replace(base, schedule=schedule)
    after = _apply(_without(base, [name for name, value in given.items() if value is None]), read, now)
    old, new = msgspec.structs.asdict(base.options), msgspec.structs.asdict(after.options)
    return Changes(
        schedule=after.schedule if times else UNSET,
        options={name: value for name, value in new.items() if value != old[name]},
        queue=_if_given("queue", given, after.queue),
        tier=_if_given("priority", given, after.tier),
        timeout_ms=_if_given("timeout", given, after.timeout_ms),
    )


def _if_given(name: str, given: Mapping[str, Any], value: Any) -> Any | UnsetType:
    return value if name in given else UNSET


def _unknown(name: str, options: Iterable[str]) -> InvalidInput:
    return InvalidInput("is not an option", field=name, remedy=f"one of {', '.join(options)}")


def _without(base: Resolved, names: list[str]) -> Resolved:
    """A key and its limit belong together: removing one removes the other."""
    gone = {name for name in names if name in STORED}
    if "concurrency_key" in gone:
        gone.add("concurrency")
    if gone & {"rate", "rate_key"}:
        gone |= {"rate", "rate_key"}
    options = msgspec.structs.replace(base.options, **{name: getattr(DEFAULT_OPTIONS, name) for name in gone})
    timeout_ms = None if "timeout" in names else base.timeout_ms
    return msgspec.structs.replace(base, options=options, timeout_ms=timeout_ms)


def _apply(base: Resolved, read: Mapping[str, Any], now: datetime | None) -> Resolved:
    changed: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for name, value in read.items():
        if name in STORED:
            options[name] = value if value != _USUAL[name] else _USUAL[name]
        elif name in _COLUMNS:
            changed[_COLUMNS[name]] = value
    if not _RULES.isdisjoint(read):
        _apply_rules(base, read, now, changed, options)
    if options:
        made = changed["options"] = msgspec.structs.replace(base.options, **options)
        changed["stored_options"] = encode_options(made)
    return msgspec.structs.replace(base, **changed)


def _apply_rules(
    base: Resolved, read: Mapping[str, Any], now: datetime | None, changed: dict[str, Any], options: dict[str, Any]
) -> None:
    """The rules between options."""
    schedule = base.schedule
    if not TIMES.isdisjoint(read):
        schedule = changed["schedule"] = _schedule(read, now, base.zone)
        changed["said"] = _said(read, base.zone) if now is not None and isinstance(schedule, Once) else None
        if base.policies and not isinstance(schedule, Once | After):
            options |= {name: value for name, value in base.policies if name not in read}
    _check_repeats(read, schedule)
    if "timeout" in read:
        changed["timeout_ms"] = max(1, round(read["timeout"] * 1000))
    if "depends_on" in read:
        changed["depends_on"] = read["depends_on"]
    if "retries" in read or "retry" in read or "delivery" in read:
        changed["retry"], options["retry"], options["at_most_once"] = _retrying(base, read)
        changed["delivery_yields"] = base.delivery_yields and "delivery" not in read
    if "concurrency" in read and read.get("concurrency_key", base.options.concurrency_key) is None:
        raise InvalidInput("`concurrency` requires `concurrency_key`", field="concurrency", remedy="set both")
    if "rate" in read or "rate_key" in read:
        rate, key = (read.get(name, getattr(base.options, name)) for name in ("rate", "rate_key"))
        if rate is None or key is None:
            raise InvalidInput(
                "`rate` and `rate_key` require each other",
                field="rate" if rate is None else "rate_key",
                remedy="such as rate_key='mail', rate='100/m'",
            )


def _retrying(base: Resolved, read: Mapping[str, Any]) -> tuple[RetryPolicy, RetryPolicy, bool]:
    """The retry policy as it was given, as it applies, and whether delivery is at most once."""
    at_most_once = read.get("delivery", base.options.at_most_once)
    policy = given = read.get("retry", base.retry)
    if "retries" in read:
        policy = given = msgspec.structs.replace(policy, retries=read["retries"])
    wants_retries = bool(read.get("retries") or ("retry" in read and policy.retries))
    if at_most_once and wants_retries and base.delivery_yields and "delivery" not in read:
        at_most_once = False
    if at_most_once:
        if wants_retries:
            raise InvalidInput(
                "`at_most_once` does not allow retries",
                field="retries",
                remedy="omit retries, or set delivery='at_least_once'",
            )
        policy = msgspec.structs.replace(policy, retries=0)
    return given, plainest(policy), at_most_once


def _schedule(read: Mapping[str, Any], now: datetime | None, usual_zone: str) -> Schedule:
    times = {name: value for name, value in read.items() if name in TIMES}
    chain: After | None = times.pop("after", None)
    if chain is None:
        return make_schedule(**times, now=now, usual_zone=usual_zone)
    if unfit := next((name for name in read if name in times or name in _REPEATS), None):
        raise InvalidInput(f"`{unfit}` cannot be combined with `after`", field=unfit, remedy="omit one of them")
    return chain


def _said(read: Mapping[str, Any], usual_zone: str) -> Said | None:
    if not is_told_by_day(read, usual_zone):
        return None
    option = "run_in" if read.get("when") is None else "when"
    zone = read.get("tz") or (None if usual_zone == NOTHING_GIVEN.zone else usual_zone)
    return Said(option, str(read[option]), zone)  # type: ignore[arg-type]


def _check_repeats(read: Mapping[str, Any], schedule: Schedule) -> None:
    if isinstance(schedule, Once | After):
        for name in _REPEATS:
            if name in read:
                raise InvalidInput(f"`{name}` requires `cron`, `rrule` or `every`", field=name, remedy="omit it")
    if "depends_on" in read and not isinstance(schedule, Once):
        raise InvalidInput("`depends_on` requires a job that runs once", field="depends_on", remedy="use `after`")
