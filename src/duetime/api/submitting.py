"""From a request to a job that can be stored: everything that can be refused is refused here."""

from collections.abc import Mapping
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

import msgspec

from duetime.engine.graphs import chain_after, make_depends_on, make_rule
from duetime.engine.intake import check_timeout, fingerprint_of, prepare
from duetime.engine.options import add_keys, add_policies, add_warning, check_duration, check_retry, make_options
from duetime.errors import InvalidInput
from duetime.ids import parse
from duetime.model.defaults import NOTHING_SAID, Defaults
from duetime.model.dependency import DependsOn, Rule
from duetime.model.job import DEFAULT_OPTIONS, DEFAULT_QUEUE, NewJob, Options, Said, encode_options
from duetime.model.lane import LaneKey, Tier
from duetime.model.name import check_key, check_name
from duetime.model.policy import Misfire
from duetime.model.retry import RetryPolicy
from duetime.model.schedule import BOUNDS, KINDS, NOW, After, Once, Schedule, make_schedule
from duetime.model.target import check_not_reserved
from duetime.targets.checking import TargetRules
from duetime.wire.jobs import DependsOnBody, JobRequest, MisfireBody, RetryBody
from duetime.wire.workers import TaskDefaults

_NO_ARGS: Mapping[str, Any] = {}
_POLICIES = ("misfire", "overlap", "jitter", "max_runs")
_TIMES = (*KINDS, *BOUNDS)
_NOT_RECURRING = (Once, After)

# Most requests of a large batch leave most things out: one look tells.
_times = attrgetter(*_TIMES, "after")
_choices = attrgetter(
    *("retries", "retry", "tags", "delivery", "key", "name", "owner", "payload_ref"),
    *("concurrency_key", "concurrency", "rate_key", "rate", "warn_after", *_POLICIES),
)
_NO_TIMES = _times(JobRequest())
_NO_CHOICES = _choices(JobRequest())


def needs_the_day(request: JobRequest) -> bool:
    """Whether its schedule can only be told from the day on which it is submitted."""
    if request.when is not None:
        return True
    return isinstance(request.run_in, str) and (request.tz is not None or request.run_in.startswith("P"))


def make_job(
    request: JobRequest,
    *,
    tenant_id: int,
    max_payload: int,
    targets: TargetRules,
    defaults: Mapping[str, Defaults],
    now: datetime | None = None,
    idempotency_key: str | None = None,
    job_id: UUID | None = None,
) -> NewJob:
    """A job ready to be stored; what the request leaves out is as its task says. `now` is needed where the request
    `needs_the_day`."""
    schedule = _schedule(request, now)
    depends_on = _depends_on(request)
    if depends_on is not None and not isinstance(schedule, Once):
        raise InvalidInput("goes with a job that runs once", field="depends_on", remedy="use after")
    task, args = _what(request, targets)
    usual = defaults.get(task, NOTHING_SAID)
    job = prepare(
        task=task,
        args=args,
        max_payload=max_payload,
        tenant_id=tenant_id,
        schedule=schedule,
        queue=usual.queue if request.queue is None else request.queue,
        tier=usual.tier if request.priority is None else Tier[request.priority],
        options=_options(request, usual.options, recurring=not isinstance(schedule, _NOT_RECURRING)),
        timeout=usual.timeout if request.timeout is None else check_duration(request.timeout, "timeout"),
        key=request.key,
        idempotency_key=idempotency_key if request.idempotency_key is None else request.idempotency_key,
        job_id=job_id,
        said=None if schedule is NOW else _said(request, schedule),
        depends_on=depends_on,
    )
    if usual is NOTHING_SAID or job.idempotency_key is None:
        return job
    # The same request is the same one after a deployment that lets the task say something else.
    asked = as_asked(request, job)
    whole = (asked.lane, asked.schedule, asked.args, asked.options, asked.timeout_ms, asked.said, asked.depends_on)
    return msgspec.structs.replace(job, request_fingerprint=fingerprint_of(*whole))


def as_asked(request: JobRequest, job: NewJob) -> NewJob:
    """A job without what its task says: by this a request is known again, whatever is known of the task then."""
    try:
        options = _options(request, DEFAULT_OPTIONS, recurring=not isinstance(job.schedule, _NOT_RECURRING))
    except InvalidInput:
        return job  # it makes sense only beside what the task says, such as a rate for the task's rate_key
    queue, tier = request.queue or DEFAULT_QUEUE, Tier[request.priority or "MEDIUM"]
    lane = LaneKey(job.lane.tenant_id, queue, tier, job.lane.task, keyed=options.is_keyed)
    timeout_ms = None if request.timeout is None else job.timeout_ms
    return msgspec.structs.replace(job, lane=lane, options=encode_options(options), timeout_ms=timeout_ms)


def _depends_on(request: JobRequest) -> DependsOn | None:
    """The jobs that it waits for."""
    given = request.depends_on
    if isinstance(given, DependsOnBody):
        rule = make_rule(given.need, given.on, given.otherwise)
        return make_depends_on([parse("job", job) for job in given.jobs], rule)
    if not given:
        return None
    return make_depends_on([parse("job", job) for job in given], Rule())


def _what(request: JobRequest, targets: TargetRules) -> tuple[str, Mapping[str, Any]]:
    """The task and its arguments; a target is a reserved task."""
    if request.target is None and request.callback_url is None:
        if request.task is None:
            raise InvalidInput("says what to do", field="task", remedy="give task, target or callback_url")
        return check_not_reserved(request.task), request.args or _NO_ARGS
    if request.task is not None:
        raise InvalidInput("task and target exclude each other", field="task", remedy="give one of them")
    if request.payload_ref is not None:
        raise InvalidInput("goes with a task", field="payload_ref", remedy="put the body into the target")
    return targets.make(request.target, request.callback_url, request.args)


def _schedule(request: JobRequest, now: datetime | None) -> Schedule:
    if _times(request) == _NO_TIMES:
        return NOW
    times: dict[str, Any] = {name: value for name in _TIMES if (value := getattr(request, name)) is not None}
    if request.after is not None:
        policies = {**times, **{name: getattr(request, name) for name in _POLICIES}, "when": request.when}
        return chain_after(parse("job", request.after.job), request.after.on, policies=policies)
    if request.exclude is not None:
        times["exclude"] = msgspec.structs.asdict(request.exclude)
    return make_schedule(**times, now=now) if times else NOW


def _said(request: JobRequest, schedule: Schedule) -> Said | None:
    if not isinstance(schedule, Once) or not needs_the_day(request):
        return None
    if request.when is not None:
        return Said("when", request.when, request.tz)
    return Said("run_in", str(request.run_in), request.tz)


def _options(request: JobRequest, usual: Options, *, recurring: bool) -> Options:
    if not recurring and _choices(request) == _NO_CHOICES:
        return usual
    policies = (request.misfire, request.overlap, request.jitter, request.max_runs)
    if not recurring:
        for name, value in zip(_POLICIES, policies, strict=True):
            if value is not None:
                raise InvalidInput(f"{name} goes with cron, rrule and every", field=name, remedy="leave it out")
    options = usual
    if (
        request.retries is not None
        or request.retry is not None
        or request.tags
        or request.delivery is not None
        or request.key is not None
        or request.name is not None
        or request.owner is not None
        or request.payload_ref is not None
    ):
        at_most_once = usual.at_most_once if request.delivery is None else request.delivery == "at_most_once"
        options = msgspec.structs.replace(
            usual,
            name=_text(request.name, "name"),
            tags=request.tags,
            retry=_retry(request, usual.retry, at_most_once=at_most_once),
            at_most_once=at_most_once,
            key=request.key,
            owner=_text(request.owner, "owner"),
            payload_ref=_text(request.payload_ref, "payload_ref"),
        )
    options = add_keys(options, request.concurrency_key, request.concurrency, request.rate_key, request.rate)
    options = add_warning(options, request.warn_after)
    if not recurring:
        return options
    misfire = request.misfire
    return add_policies(
        options,
        Misfire(**msgspec.structs.asdict(misfire)) if isinstance(misfire, MisfireBody) else misfire,
        request.overlap,
        request.jitter,
        request.max_runs,
    )


def _retry(request: JobRequest, usual: RetryPolicy, *, at_most_once: bool) -> RetryPolicy:
    if at_most_once:
        if request.retries or (request.retry is not None and request.retry.retries):
            raise InvalidInput(
                "at_most_once means that nothing is tried again",
                field="retries",
                remedy="leave retries out" if request.delivery else "leave retries out, or give delivery",
            )
        return RetryPolicy(retries=0)
    policy = usual if request.retry is None else retry_policy(request.retry)
    return policy if request.retries is None else msgspec.structs.replace(policy, retries=request.retries)


def retry_policy(body: RetryBody) -> RetryPolicy:
    return check_retry(RetryPolicy(**msgspec.structs.asdict(body)))


def _text(value: str | None, field: str) -> str | None:
    return None if value is None else check_key(value, field)


def read_defaults(body: TaskDefaults) -> Defaults:
    """What a task says of its jobs, checked as what a job says."""
    options = make_options(
        DEFAULT_OPTIONS,
        retries=body.retries,
        retry=None if body.retry is None else retry_policy(body.retry),
        delivery=body.delivery,
        concurrency_key=body.concurrency_key,
        concurrency=body.concurrency,
        rate_key=body.rate_key,
        rate=body.rate,
        warn_after=body.warn_after,
    )
    timeout = None if body.timeout is None else check_duration(body.timeout, "timeout")
    if timeout is not None:
        check_timeout(timeout)
    queue = DEFAULT_QUEUE if body.queue is None else check_name(body.queue, "queue")
    return Defaults(queue, Tier[body.priority or "MEDIUM"], timeout, options)
