"""From a request to a job that can be stored. Everything that can be refused is refused here."""

from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import compress, repeat
from operator import attrgetter, is_not
from typing import Any
from uuid import UUID

import msgspec

from duetime.api.task_registry import KnownTasks
from duetime.codec.schema_types import ArgumentCheck
from duetime.errors import InvalidInput
from duetime.model import json
from duetime.model.defaults import Defaults
from duetime.model.job import NewJob
from duetime.model.scope import Scope
from duetime.model.target import check_not_reserved
from duetime.spec.derived import OPTIONS
from duetime.spec.resolved import (
    NOTHING_GIVEN,
    Resolved,
    base_of,
    check_once,
    is_told_by_day,
    resolve,
    written_defaults,
)
from duetime.store.wrappers.scoped import SHARED, refused
from duetime.targets.validation import TargetRules
from duetime.wire.jobs import JobRequest
from duetime.wire.workers import TaskDefaults

NO_CHECKS: Mapping[str, ArgumentCheck] = {}
_NO_ARGS: Mapping[str, Any] = {}
_options: Callable[[JobRequest], tuple[Any, ...]] = attrgetter(*OPTIONS)
_NO_OPTIONS = _options(JobRequest())
_MOST_KEPT = 1000
_UNSCOPED = {
    "target": "name a task of a worker",
    "callback_url": "name a task of a worker",
    **dict.fromkeys(SHARED, "declare it with the task: it is shared by all jobs of the tenant"),
}
"""What callers with a scope may not give. A job that gets it from its task may have it."""


class JobMaker:
    """Makes the jobs of one request: one job, or a batch, whose items often have the same options."""

    def __init__(
        self,
        *,
        tenant_id: int,
        max_payload: int,
        targets: TargetRules,
        usual: Defaults,
        known: KnownTasks,
        checks: Mapping[str, ArgumentCheck] = NO_CHECKS,
        now: datetime | None = None,
        scope: Scope | None = None,
    ) -> None:
        self._tenant_id = tenant_id
        self._max_payload = max_payload
        self._targets = targets
        self._usual = usual
        """The defaults of the tenant."""
        self.known = known
        self._checks = checks
        self._scope = scope
        self.now = now
        """Needed for a request that `needs_the_day`."""
        self.zone = base_of(usual).zone
        self._resolved: dict[tuple[str | None, tuple[Any, ...]], Resolved] = {}

    def needs_the_day(self, request: JobRequest) -> bool:
        """Whether the schedule depends on the day of submission."""
        if request.when is None and request.run_in is None:
            return False
        return is_told_by_day({"when": request.when, "run_in": request.run_in, "tz": request.tz}, self.zone)

    def has_defaults(self, task: str) -> bool:
        """Whether the jobs of a task have defaults."""
        return self._base(task) is not NOTHING_GIVEN

    def _base(self, task: str) -> Resolved:
        return base_of(self._usual, self.known.defaults.get(task))

    def make(
        self,
        request: JobRequest,
        *,
        idempotency_key: str | None = None,
        job_id: UUID | None = None,
        by_nonce: bool = False,
    ) -> NewJob:
        """Make a job. Options that the request omits come from its task, or from its tenant. `by_nonce`: the key is a
        nonce, and the id was computed from it."""
        if self._scope is not None:
            request = _fitted(request, self._scope)
        task, args = self._what(request)
        body = json.encode(args, field="args", limit=self._max_payload)
        if (check := self._checks.get(task)) is not None:
            check.check(body)
        resolved = base = self._base(task)
        if (options := _options(request)) != _NO_OPTIONS:
            resolved = self._resolve(task, base, options)
        if request.once:
            check_once(resolved.schedule, dict(zip(OPTIONS, options, strict=True)))
        job = resolved.job(self._tenant_id, task, body, job_id=job_id, idempotency_key=idempotency_key)
        if by_nonce and request.idempotency_key is None:
            job = msgspec.structs.replace(job, by_nonce=True)
        if base is NOTHING_GIVEN or job.idempotency_key is None:
            return job
        # A repeated request must match also after a change of the defaults.
        return msgspec.structs.replace(job, request_fingerprint=self.as_asked(request, job).fingerprint)

    def as_asked(self, request: JobRequest, job: NewJob) -> NewJob:
        """The job without the defaults of its task and tenant: the fingerprint of a request must not depend on them."""
        try:
            asked = self._resolve(None, NOTHING_GIVEN, _options(request))
        except InvalidInput:
            return job  # its options are valid only together with the defaults, such as a rate for their rate_key
        made = asked.job(self._tenant_id, job.lane.task, job.args, job_id=job.id, idempotency_key=job.idempotency_key)
        return msgspec.structs.replace(made, fingerprint=asked.fingerprint(job.lane.task, job.args))

    def _resolve(self, task: str | None, base: Resolved, values: tuple[Any, ...]) -> Resolved:
        asked = (task, values)
        found = self._resolved.get(asked)
        if found is None:
            given = dict(compress(zip(OPTIONS, values, strict=True), map(is_not, values, repeat(None))))
            found = resolve(base, given, now=self.now, decoded=True)
            if len(self._resolved) < _MOST_KEPT:
                self._resolved[asked] = found
        return found

    def _what(self, request: JobRequest) -> tuple[str, Mapping[str, Any]]:
        """The task and its arguments; a target is a reserved task."""
        if request.target is None and request.callback_url is None:
            if request.task is None:
                raise InvalidInput(
                    "`task` or `target` is required", field="task", remedy="give task, target or callback_url"
                )
            return check_not_reserved(request.task), request.args or _NO_ARGS
        if request.task is not None:
            raise InvalidInput("`task` and `target` exclude each other", field="task", remedy="give one of them")
        if request.payload_ref is not None:
            raise InvalidInput("requires a task", field="payload_ref", remedy="put the body in the target")
        return self._targets.make(request.target, request.callback_url, request.args)


def _fitted(request: JobRequest, scope: Scope) -> JobRequest:
    """The request of a caller with a scope, in which the job is in the scope. What it contradicts is refused when the
    job is stored (`store/wrappers/scoped.py`)."""
    for name, remedy in _UNSCOPED.items():
        if getattr(request, name) is not None:
            raise refused(name, remedy)
    tags = request.tags or ()
    if scope.tag is not None and scope.tag not in tags:
        tags = (*tags, scope.tag)
    owner = request.owner if request.owner is not None else scope.owner
    queue = request.queue if request.queue is not None else scope.queue
    return msgspec.structs.replace(request, owner=owner, queue=queue, tags=tags or request.tags)


def read_defaults(body: TaskDefaults) -> Defaults:
    """The defaults of a task, checked like the options of a job."""
    given = msgspec.structs.asdict(body)
    resolve(NOTHING_GIVEN, given, decoded=True)
    return written_defaults(given)
