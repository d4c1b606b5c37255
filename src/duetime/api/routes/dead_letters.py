"""Dead letters: runs that have used up their attempts, kept for inspection and replay."""

import os
from datetime import timedelta

import msgspec

from duetime.api.call import Call
from duetime.api.endpoint import Reply, Routes
from duetime.api.idempotency import HEADER, keyed_by_header, replay_headers
from duetime.api.list_filters import dead_filter
from duetime.api.run_views import dead_groups_view, dead_letter_view
from duetime.ids import show
from duetime.model.access import Action
from duetime.model.lists import ReplayPace
from duetime.wire.runs import (
    DeadLetterFilter,
    DeadLetterGroupQuery,
    DeadLetterGroups,
    DeadLetterPage,
    DeadLetterQuery,
    Discarded,
    DiscardRequest,
    ReplayAnswer,
    ReplayedRun,
    ReplayRequest,
)

routes = Routes("Dead letters")


@routes.get("/v1/dead-letters", Action.READ, scoped=True, query=DeadLetterQuery, answer=DeadLetterPage, replica=True)
async def list_dead_letters(call: Call) -> DeadLetterPage:
    """List dead letters, newest first by their due time."""
    wanted = dead_filter(call.query)
    before = await call.page_start()
    page = await call.store.lists.list_dead_letters(call.tenant_id, wanted, before, call.query.page_size)
    return DeadLetterPage(tuple(dead_letter_view(dead) for dead in page.items), await call.next_cursor(page.next))


@routes.get("/v1/dead-letters/groups", Action.READ, query=DeadLetterGroupQuery, answer=DeadLetterGroups, replica=True)
async def group_dead_letters(call: Call) -> DeadLetterGroups:
    """Group dead letters by their error, the largest groups first."""
    return dead_groups_view(await call.store.lists.group_dead_letters(call.tenant_id, call.query.limit))


@routes.post(
    "/v1/dead-letters/replay",
    Action.CONTROL,
    scoped=True,
    body=ReplayRequest,
    answer=ReplayAnswer,
    problems=(409,),
    repeats="by handler",
)
async def replay_dead_letters(call: Call) -> Reply:
    """Replay the dead letters that match, oldest first, each once."""
    request = call.body
    keyed = keyed_by_header(call, "replay", msgspec.to_builtins(request))
    pace = ReplayPace(request.limit, request.rate, timedelta(seconds=request.delay))
    async with call.submitting(1, call.header(HEADER)) as created:  # how many it creates is not known before
        found = await call.store.replay.replay_dead_letters(
            call.tenant_id, dead_filter(request), pace, os.urandom(8), keyed
        )
        created.count = 0 if keyed is not None and keyed.replayed else len(found.runs)
    await call.act("dead_letters.replay", _about(request), f"{len(found.runs)} runs")
    runs = tuple(ReplayedRun(show("run", new), show("run", dead)) for dead, new in found.runs)
    return Reply(ReplayAnswer(runs, found.more), headers=replay_headers(keyed))


@routes.post("/v1/dead-letters/discard", Action.CONTROL, scoped=True, body=DiscardRequest, answer=Discarded)
async def discard_dead_letters(call: Call) -> Discarded:
    """Discard the dead letters that match, oldest first."""
    request = call.body
    count = await call.store.replay.discard_dead_letters(call.tenant_id, dead_filter(request), request.limit)
    await call.act("dead_letters.discard", _about(request), f"{count} dead letters")
    return Discarded(count)


def _about(request: DeadLetterFilter) -> str:
    return request.run_id or request.job_id or request.task or request.queue or request.fingerprint or "all that match"
