"""Many jobs in one request and one transaction."""

import asyncio
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from duetime import ids
from duetime.api.decoding import fit, read_json
from duetime.api.endpoint import JSON, Call, Reply, Routes
from duetime.api.problems import INVALID_INPUT, Problem, item_problem
from duetime.api.submitting import make_job, needs_the_day
from duetime.api.views import receipt
from duetime.engine.gathering import ABOUT_ONE_JOB
from duetime.errors import InvalidInput, Overloaded, StoreUnavailable
from duetime.model.access import Action
from duetime.model.job import NewJob, Submitted
from duetime.model.tracing import traced
from duetime.wire.jobs import BatchAnswer, BatchItem, BatchQuery, ItemProblem, JobRequest, Receipt

routes = Routes("Jobs")
NDJSON = "application/x-ndjson"
MOST = 10_000
_BREATH = 500
"""Items after which others on the event loop have their turn."""
_MOST_TOLD = 100

Prepared = dict[int, NewJob]
Refused = dict[int, ItemProblem]


@routes.post(
    "/v1/jobs/batch",
    Action.SUBMIT,
    query=BatchQuery,
    body=list[JobRequest],
    reads="bytes",
    media=(JSON, NDJSON),
    body_limit="batch",
    answer=BatchAnswer,
    problems=(409, 429),
    headers={"Idempotency-Key": "The same key and body again give the first answer again."},
)
async def create_jobs(call: Call) -> Reply:
    """Create up to 10,000 jobs in one transaction: all or nothing, or with `partial=true` all that can be stored."""
    items = _items(call)
    service = call.service
    tenant = await service.gate.tenant(call.tenant_id)
    told = service.limits.spend(tenant, len(items))
    prepared, refused = await _prepare(call, items)
    if refused and not call.query.partial:
        raise _nothing_stored(len(items), refused)
    tasks = dict.fromkeys(job.lane.task for job in prepared.values())
    warnings = await service.tasks.check_all(call.tenant_id, tasks)
    async with service.quota.taking(tenant, len(prepared)) as taken:
        with traced(service.tracer, list(prepared.values()), call.header(b"traceparent")) as remembering:
            answers = await _store(call, dict(zip(prepared, remembering, strict=True)), refused)
        taken.needed = sum(answer.created for answer in answers.values())
    receipts = {
        index: receipt(prepared[index], answer, warnings[prepared[index].lane.task])
        for index, answer in answers.items()
    }
    if receipts:
        stored = list(answers.values())
        service.trail.submitted(call.who, stored[0].job_id, stored[-1].job_id, len(stored))
    if answers and all(answer.replayed for answer in answers.values()):
        told = told | {"idempotency-replayed": "true"}
    return Reply(_answer(len(items), receipts, refused), headers=told)


def _items(call: Call) -> list[Any]:
    media = (call.header(b"content-type") or JSON).partition(";")[0].strip().lower()
    if media == NDJSON:
        lines = [line for line in call.body.split(b"\n") if line.strip()]
        items: Any = list(_lines(lines)) if len(lines) <= MOST else lines
    else:
        items = read_json(call.body)
    if not isinstance(items, list):
        raise Problem(INVALID_INPUT, "the body is not an array of jobs", remedy="send [{…}, …], or NDJSON")
    if not 1 <= len(items) <= MOST:
        raise Problem(INVALID_INPUT, f"{len(items)} jobs cannot be one batch", remedy=f"1 to {MOST:,}")
    return items


def _lines(lines: list[bytes]) -> Iterator[Any]:
    for index, line in enumerate(lines):
        try:
            yield read_json(line)
        except Problem as problem:
            raise Problem(problem.kind, problem.detail, field=f"[{index}]", remedy=problem.remedy) from None


async def _prepare(call: Call, items: list[Any]) -> tuple[Prepared, Refused]:
    prepared: Prepared = {}
    refused: Refused = {}
    taken: set[tuple[str, str]] = set()
    batch_key = call.header(b"idempotency-key")
    digest = b"" if batch_key is None else blake2b(call.body, digest_size=16).digest()
    defaults = await call.service.tasks.defaults(call.tenant_id)
    now = None
    for index, (item, job_id) in enumerate(zip(items, ids.new_ids(len(items)), strict=True)):
        if index % _BREATH == _BREATH - 1:
            await asyncio.sleep(0)
        try:
            request: JobRequest = fit(item, JobRequest)
            if now is None and needs_the_day(request):
                now = await call.service.store.now()
            job = make_job(
                request,
                tenant_id=call.tenant_id,
                max_payload=call.service.settings.max_payload,
                targets=call.service.targets,
                defaults=defaults,
                now=now,
                idempotency_key=None if batch_key is None else f"{batch_key}/{index}",
                job_id=job_id,
            )
            if batch_key is not None and request.idempotency_key is None:
                # Bound to the whole body: the same key with another batch is refused.
                job = msgspec.structs.replace(job, request_fingerprint=digest)
            if request.target is not None:
                await call.service.secrets.check(call.tenant_id, request.target)
            _take(job, taken)
            prepared[index] = job
        except (Problem, InvalidInput) as error:
            refused[index] = item_problem(index, error)
            await asyncio.sleep(0)  # finding out what was meant takes far longer than the rest
    return prepared, refused


def _take(job: NewJob, taken: set[tuple[str, str]]) -> None:
    """A key may stand only once in a batch: which of the two would it name?"""
    for field, value in (("key", job.key), ("idempotency_key", job.idempotency_key)):
        if value is not None:
            if (field, value) in taken:
                raise InvalidInput(f"{value!r} stands twice in this batch", field=field)
            taken.add((field, value))


async def _store(call: Call, prepared: Prepared, refused: Refused) -> dict[int, Submitted]:
    if not prepared:
        return {}
    intake = call.service.intake
    try:
        answers = await intake.submit_all(call.tenant_id, list(prepared.values()))
    except ABOUT_ONE_JOB:
        if not call.query.partial:
            raise
    else:
        return dict(zip(prepared, answers, strict=True))
    found: dict[int, Submitted] = {}
    for index, job in prepared.items():
        try:
            found[index] = await intake.submit(call.tenant_id, job)
        except ABOUT_ONE_JOB as error:
            refused[index] = item_problem(index, error)
        except (Overloaded, StoreUnavailable) as error:
            if not found:
                raise
            # Whoever were told only this would send again what is stored.
            left = [each for each in prepared if each >= index]
            refused |= {each: item_problem(each, error) for each in left}
            break
    return found


def _nothing_stored(count: int, refused: Refused) -> Problem:
    first = next(iter(refused.values()))
    return Problem(
        INVALID_INPUT,
        f"{len(refused)} of {count} jobs cannot be accepted, so none of them is stored",
        field=f"[{first.index}]" if first.field is None else f"[{first.index}].{first.field}",
        remedy="mend them, or ask with partial=true",
        errors=tuple(refused.values())[:_MOST_TOLD],
    )


def _answer(count: int, receipts: dict[int, Receipt], refused: Refused) -> BatchAnswer:
    items = tuple(BatchItem(index, receipts.get(index), refused.get(index)) for index in range(count))
    return BatchAnswer(len(receipts), len(refused), items)
