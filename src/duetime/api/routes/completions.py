"""Completions: a receiver that answered 202 says how it went. Its link is all that it needs."""

import asyncio
from collections.abc import Sequence
from random import Random

import msgspec

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.errors import Conflict, NotFound
from duetime.ids import show
from duetime.model import json
from duetime.model.attempt import AttemptState, Completion, Run
from duetime.model.failure import Failure, FailureClass
from duetime.model.job import decode_options
from duetime.model.outcome import Failed
from duetime.model.retry import Verdict, decide
from duetime.model.run import Event
from duetime.model.target import decode_target
from duetime.model.worker import Lost
from duetime.targets.completion_link import Completable
from duetime.targets.redaction import Redactor
from duetime.targets.values import named_secrets
from duetime.wire.targets import CompletionAnswer, CompletionRequest

routes = Routes("Completions")
_random = Random()


async def _by_link(call: Call) -> None:
    """The link is all that the receiver shows; without a valid one its body is not read."""
    call.admitted = await call.service.links.read(call.path["token"])
    if call.admitted is None:
        raise NotFound("there is no such completion link", remedy="use the link as it was sent")


@routes.post(
    "/v1/completions/{token}",
    None,
    admit=_by_link,
    body=CompletionRequest,
    body_limit="job",
    body_optional=True,
    answer=CompletionAnswer,
    problems=(404, 409),
    repeats="by nature",
)
async def complete_run(call: Call) -> CompletionAnswer:
    """End a run that was handed over, by its completion link. Saying the same again changes nothing."""
    service = call.service
    attempt: Completable = call.admitted
    request: CompletionRequest = call.body
    redactor = await _redactor(call, attempt)
    if request.error is not None:
        request = msgspec.structs.replace(request, error=redactor.text(request.error))
    result = None
    if request.status == "succeeded" and request.result is not None:
        result = json.encode(request.result, field="result", limit=service.settings.max_result)
        if redactor.is_in(result):
            # Beside the event loop: it may hold any number of texts.
            result = await asyncio.to_thread(redactor.document, result)

    def judge(found: Sequence[Lost]) -> list[Completion]:
        return [_completion(run, request, result) for run in found]

    finished = await service.store.finish(attempt.run_id, attempt.fence, judge)
    run = await service.store.run(attempt.tenant_id, attempt.run_id)
    if not finished and not _said_before(run, attempt, request):
        raise Conflict("this attempt is over", remedy="look at the run: it has ended, or is tried again")
    return CompletionAnswer(show("run", run.id), run.state.name)


async def _redactor(call: Call, attempt: Completable) -> Redactor:
    """Knows what the receiver was sent that must not be shown."""
    service = call.service
    run = await service.store.run(attempt.tenant_id, attempt.run_id)
    try:
        named = {name for _, name in named_secrets(decode_target(run.args))}
    except msgspec.DecodeError:  # its arguments cannot be opened here, or newer code has stored them
        named = {each.name for each in await service.store.tenant_secrets(attempt.tenant_id)}
    return Redactor([*await service.vault.shown_to_receivers(attempt.tenant_id, named), call.path["token"]])


def _completion(run: Lost, request: CompletionRequest, result: bytes | None) -> Completion:
    if request.status == "succeeded":
        return Completion(run.run_id, run.fence, Verdict(Event.SUCCEED), AttemptState.SUCCEEDED, result=result)
    kind = FailureClass.TARGET_FAILED if request.retry else FailureClass.TARGET_REFUSED
    failure = Failure(kind, request.error or "its receiver said that it failed")
    verdict = decide(Failed(failure), decode_options(run.options).retry, run.attempt, _random)
    return Completion(run.run_id, run.fence, verdict, AttemptState.FAILED, kind, failure.text)


def _said_before(run: Run, attempt: Completable, request: CompletionRequest) -> bool:
    """Whether this very attempt has ended in this way: the answer was lost, and the receiver asks again."""
    wanted = AttemptState.SUCCEEDED if request.status == "succeeded" else AttemptState.FAILED
    return any(each.fence == attempt.fence and each.state is wanted for each in run.attempts)
