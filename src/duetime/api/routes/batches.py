"""Many jobs in one request and one transaction."""

from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any

import msgspec

from duetime import ids
from duetime.api.bodies import MOST_VALUES, ROOM_FOR_THE_REST, count_values, parse
from duetime.api.call import Call, Created
from duetime.api.decoding import fit, read_json, read_json_items
from duetime.api.endpoint import JSON, Reply, Routes
from duetime.api.idempotency import SUBMISSION, repeat_of
from duetime.api.job_maker import JobMaker
from duetime.api.job_views import receipt
from duetime.api.problems import INVALID_INPUT, TOO_LARGE, Problem, item_problem
from duetime.engine.submit_batcher import ABOUT_ONE_JOB
from duetime.errors import InvalidInput, Overloaded, StoreUnavailable
from duetime.model.access import Action
from duetime.model.job import NewJob, Submitted
from duetime.model.tracing import traced
from duetime.process.slices import MOST_SECONDS, Slices, mapped
from duetime.wire.jobs import BatchAnswer, BatchItem, BatchQuery, ItemProblem, JobRequest, Receipt

routes = Routes("Jobs")
NDJSON = "application/x-ndjson"
MOST = 10_000
_MOST_TOLD = 100

Prepared = dict[int, NewJob]
Refused = dict[int, ItemProblem]


@routes.post(
    "/v1/jobs/batch",
    Action.SUBMIT,
    scoped=True,
    query=BatchQuery,
    body=list[JobRequest],
    reads="bytes",
    media=(JSON, NDJSON),
    body_limit="batch",
    answer=BatchAnswer,
    problems=(409,),
    headers=SUBMISSION,
    repeats="by handler",
)
async def create_jobs(call: Call) -> Reply:
    """Create up to 10,000 jobs in one transaction: all or nothing, or with `partial=true` all that can be stored."""
    items = await parse(call.body, partial(_items, call))
    repeat = repeat_of(call)
    keys = [None] if repeat is None else [f"{repeat.key}/{index}" for index in range(len(items))]
    async with call.submitting(len(items), *keys) as created:
        return await _create(call, items, created)


async def _create(call: Call, items: list[Any], created: Created) -> Reply:
    service = call.service
    maker = await service.job_maker(await call.tenant(), _tasks(items), scope=call.who.scope)
    prepared, refused = await _prepare(call, items, maker)
    if refused and not call.query.partial:
        raise _nothing_stored(len(items), refused)
    tasks = dict.fromkeys(job.lane.task for job in prepared.values())
    warnings = service.tasks.warnings(maker.known, tasks, suggest=call.who.scope is None)
    with traced(service.tracer, list(prepared.values()), call.header(b"traceparent")) as remembering:
        answers = await _store(call, dict(zip(prepared, remembering, strict=True)), refused)
    made = await mapped(
        lambda item: receipt(prepared[item[0]], item[1], warnings[prepared[item[0]].lane.task]), answers.items()
    )
    receipts = dict(zip(answers, made, strict=True))
    if receipts:
        stored = list(answers.values())
        service.trail.submitted(call.who, stored[0].job_id, stored[-1].job_id, len(stored))
    fresh = sum(not answer.replayed for answer in answers.values())
    created.count = fresh if answers else 1
    headers = created.headers
    if answers and not fresh:
        headers = headers | {"idempotency-replayed": "true"}
    return Reply(await _answer(len(items), receipts, refused), headers=headers)


def _items(call: Call, body: bytes) -> list[Any]:
    media = (call.header(b"content-type") or JSON).partition(";")[0].strip().lower()
    largest = call.service.settings.max_payload + ROOM_FOR_THE_REST
    if media == NDJSON:
        lines = [line for line in body.split(b"\n", MOST * 2) if line.strip()]
        items: list[Any] = list(_lines(lines, largest)) if len(lines) <= MOST else lines
    else:
        items = read_json_items(body, MOST, largest, MOST_VALUES)
    if not 1 <= len(items) <= MOST:
        raise Problem(INVALID_INPUT, f"a batch cannot have {len(items)} jobs", remedy=f"1 to {MOST:,}")
    return items


def _lines(lines: list[bytes], largest: int) -> Iterator[Any]:
    for index, line in enumerate(lines):
        if len(line) > largest or (len(line) > MOST_VALUES and count_values(line) > MOST_VALUES):
            raise Problem(
                TOO_LARGE,
                f"more than {largest:,} bytes or {MOST_VALUES:,} values",
                field=f"[{index}]",
                remedy="store it as a payload",
            )
        try:
            yield read_json(line)
        except Problem as problem:
            raise Problem(problem.kind, problem.detail, field=f"[{index}]", remedy=problem.remedy) from None


async def _prepare(call: Call, items: list[Any], maker: JobMaker) -> tuple[Prepared, Refused]:
    prepared: Prepared = {}
    refused: Refused = {}
    taken: set[tuple[str, str]] = set()
    repeat = repeat_of(call)
    digest = b"" if repeat is None else blake2b(call.body, digest_size=16).digest()
    slices = Slices(MOST_SECONDS)
    for index, (item, job_id) in enumerate(zip(items, ids.new_ids(len(items)), strict=True)):
        await slices.yield_if_due()
        try:
            request: JobRequest = fit(item, JobRequest)
            if maker.now is None and maker.needs_the_day(request):
                maker.now = await call.store.now()
            if repeat is None:
                job = maker.make(request, job_id=job_id)
            else:
                named = repeat.job_id(call.tenant_id, index)
                key = f"{repeat.key}/{index}"
                job = maker.make(request, idempotency_key=key, job_id=named or job_id, by_nonce=named is not None)
            if repeat is not None and request.idempotency_key is None:
                # The key is bound to the whole body: the same key with another batch is refused.
                job = msgspec.structs.replace(job, request_fingerprint=digest)
            if request.target is not None:
                await call.service.secrets.check(call.who, request.target)
            _take(job, taken)
            prepared[index] = job
        except (Problem, InvalidInput) as error:
            refused[index] = item_problem(index, error)
    return prepared, refused


def _tasks(items: Sequence[Any]) -> set[str]:
    named = (item.get("task") for item in items if isinstance(item, dict))
    return {task for task in named if isinstance(task, str)}


def _take(job: NewJob, taken: set[tuple[str, str]]) -> None:
    """Refuse a key that another job of the batch has."""
    for field, value in (("key", job.key), ("idempotency_key", job.idempotency_key)):
        if value is not None:
            if (field, value) in taken:
                raise InvalidInput(f"{value!r} appears twice in this batch", field=field)
            taken.add((field, value))


async def _store(call: Call, prepared: Prepared, refused: Refused) -> dict[int, Submitted]:
    if not prepared:
        return {}
    intake = call.intake
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
            # With this error alone, the caller would send jobs again that are stored.
            left = [each for each in prepared if each >= index]
            refused |= {each: item_problem(each, error) for each in left}
            break
    return found


def _nothing_stored(count: int, refused: Refused) -> Problem:
    first = next(iter(refused.values()))
    return Problem(
        INVALID_INPUT,
        f"{len(refused)} of {count} jobs are not valid, so none is stored",
        field=f"[{first.index}]" if first.field is None else f"[{first.index}].{first.field}",
        remedy="correct them, or use partial=true",
        errors=tuple(refused.values())[:_MOST_TOLD],
    )


async def _answer(count: int, receipts: dict[int, Receipt], refused: Refused) -> BatchAnswer:
    items = await mapped(lambda index: BatchItem(index, receipts.get(index), refused.get(index)), range(count))
    return BatchAnswer(len(receipts), len(refused), tuple(items))
