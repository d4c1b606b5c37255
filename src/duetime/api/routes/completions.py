"""Completions: a receiver that answered 202 reports the outcome. It authenticates with its completion link only."""

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
    """Check the link before the body is read: it is the receiver's only credential."""
    call.admitted = await call.service.links.read(call.path["token"])
    if call.admitted is None:
        raise NotFound("the completion link is not valid", remedy="use the link from the request")


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
    """Report the outcome of an attempt by its completion link. Repeating the same report has no effect."""
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
            # In a thread: it can contain any number of strings.
            result = await asyncio.to_thread(redactor.document, result)

    def judge(found: Sequence[Lost]) -> list[Completion]:
        return [_completion(run, request, result) for run in found]

    finished = await service.store.completions.finish(attempt.run_id, attempt.fence, judge)
    run = await service.store.reads.run(attempt.tenant_id, attempt.run_id)
    if not finished and not _said_before(run, attempt, request):
        raise Conflict("the attempt has ended", remedy="read the run: it has ended, or has a new attempt")
    return CompletionAnswer(show("run", run.id), run.state.name)


async def _redactor(call: Call, attempt: Completable) -> Redactor:
    """A redactor for the secrets that were sent to the receiver."""
    service = call.service
    run = await service.store.reads.run(attempt.tenant_id, attempt.run_id)
    try:
        named = {each.name for each in named_secrets(decode_target(run.args))}
    except msgspec.DecodeError:  # its arguments cannot be decrypted here, or newer code has stored them
        named = {each.name for each in await service.store.secrets.tenant_secrets(attempt.tenant_id)}
    return Redactor([*await service.vault.shown_to_receivers(attempt.tenant_id, named), call.path["token"]])


def _completion(run: Lost, request: CompletionRequest, result: bytes | None) -> Completion:
    if request.status == "succeeded":
        return Completion(run.run_id, run.fence, Verdict(Event.SUCCEED), AttemptState.SUCCEEDED, result=result)
    kind = FailureClass.TARGET_FAILED if request.retry else FailureClass.TARGET_REFUSED
    failure = Failure(kind, request.error or "the receiver reported a failure")
    verdict = decide(Failed(failure), decode_options(run.options).retry, run.attempt, _random)
    return Completion(run.run_id, run.fence, verdict, AttemptState.FAILED, kind, failure.text)


def _said_before(run: Run, attempt: Completable, request: CompletionRequest) -> bool:
    """Whether this attempt has already ended in this way: the response was lost, and the receiver repeats its
    request."""
    wanted = AttemptState.SUCCEEDED if request.status == "succeeded" else AttemptState.FAILED
    return any(each.fence == attempt.fence and each.state is wanted for each in run.attempts)
