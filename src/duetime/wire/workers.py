"""What a remote worker and a server say to each other; `docs/worker-protocol.md` tells it to people.

Requests refuse what they do not know; answers may say more than their reader knows. Ids are text (`run_…`), moments are
RFC 3339, durations are seconds. Arguments, results and checkpoints are JSON values.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from duetime.spec.derived import OF_TASKS, request_struct

TOKEN_HEADER = "Duetime-Worker-Token"
"""Carries the token of the session, on every request but the registration."""
MOST_RUNS = 1000
"""Runs in one claim, completions in one report."""
LONGEST_WAIT = 60.0
"""Seconds that a claim may wait for a run."""
LOG_LIMIT = 1024 * 1024
"""Bytes of JSON that the log of one attempt may have."""
LOG_LINES = 10_000
LINE_LENGTH = 2000
LEVEL_LENGTH = 20

Ident = Annotated[str, msgspec.Meta(max_length=64)]
Fence = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
ClaimNo = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=366 * 86_400)]
Lease = Annotated[float, msgspec.Meta(ge=1, le=3600)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
ProbedRuns = Annotated[int, msgspec.Meta(ge=0, le=MOST_RUNS)]
FailureName = Literal["error", "timeout", "lost", "cancelled", "target_refused", "target_failed", "network", "gave_up"]


class Request(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a worker sends."""


class Answer(msgspec.Struct):
    """What it gets back."""


if TYPE_CHECKING:

    class TaskDefaults(Request):
        def __init__(self, **options: Any) -> None: ...
else:
    TaskDefaults = request_struct(
        *("TaskDefaults", OF_TASKS.values(), Request),
        doc="What the jobs of a task get where their submission leaves it out, in the words of `POST /v1/jobs`.",
        frozen=False,
    )


class Registration(Request):
    """A worker that begins."""

    name: Name
    """Tells people which one it is, such as its host and process."""
    tasks: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=10_000)]
    """What it can do."""
    queues: Annotated[list[Name], msgspec.Meta(max_length=1000)] = []
    """What it takes runs from; none: all that its key may."""
    slots: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    """How many runs it can hold at once."""
    lease: Lease | None = None
    """Seconds that it may stay silent; the server's own setting when it is left out."""
    version: Annotated[str, msgspec.Meta(max_length=100)] = ""
    """What it is made of, for people, such as `shop-worker 2.1`."""
    defaults: Annotated[dict[Name, TaskDefaults], msgspec.Meta(max_length=10_000)] = {}
    """What its tasks say of their jobs; of those that are not named here, what a worker told before stays."""


class Registered(Answer):
    worker_id: str
    token: str
    """Of this session: every other request carries it in `Duetime-Worker-Token`. It is not shown again."""
    lease: float
    """Seconds that the worker may stay silent."""
    heartbeat: float
    """Seconds after which it should send the next heartbeat."""
    lease_until: datetime


class Ask(Request):
    """A worker that wants runs."""

    claim_no: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    """Counts up from 1. Asking again with the same number gives the same runs. 0: claim nothing, wait only for requests
    to stop."""
    room: Annotated[int, msgspec.Meta(ge=0, le=MOST_RUNS)] = 1
    """How many runs it has room for. 0: wait for nothing, and say what this claim has brought before."""
    tasks: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=10_000)] | None = None
    """Only these, of those that it registered."""
    wait: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT)] = 30.0
    """Seconds to wait for a run before the answer is empty."""
    suspects: Annotated[int, msgspec.Meta(ge=0, le=MOST_RUNS)] = 1
    """How many runs it takes that were there when a worker died."""
    probed: Annotated[int, msgspec.Meta(ge=0, le=1)] = 1
    """Whether it takes a run that was there when two workers died: the only one of those until it has ended."""
    proven: Annotated[dict[Name, ProbedRuns], msgspec.Meta(max_length=10_000)] = {}
    """How many of those it takes of a task of which one has ended here. None are dealt together with one of another."""
    alone: Annotated[int, msgspec.Meta(ge=0, le=1)] = 1
    """Whether it takes a run that was there when more workers died. It comes alone: take nothing else beside it."""
    held: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    """How many runs it holds already. What comes alone goes to workers that hold nothing, as long as there are any."""


class DealtRun(Answer, kw_only=True, omit_defaults=True):
    """A run for the worker that asked; everything that it needs to try it."""

    run_id: str
    job_id: str
    fence: int
    """Send it along with whatever is said of this run."""
    task: str
    queue: str
    priority: Literal["HIGH", "MEDIUM", "LOW"]
    attempt: int
    """The first is 1."""
    lost: int = 0
    """Attempts that lost their worker before this one."""
    trial: int = 0
    """How far it is trusted. 0: entirely. 1: it, or its task, was there when a worker died. 2: twice. 3: more often."""
    due_at: datetime
    ready_at: datetime
    started_at: datetime
    timeout: float | None = None
    """Seconds after which the worker should stop it."""
    args: msgspec.Raw
    options: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """What the job says besides: `retry`, `at_most_once`, `payload_ref`, `name`, `tags`, …"""
    checkpoint: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """What an earlier attempt saved."""


class Dealt(Answer):
    runs: list[DealtRun] = []
    cancelled: list[str] = []
    """Runs of this worker that somebody asked to stop."""


class Beat(Request):
    """A sign of life."""

    open_claims: Annotated[list[ClaimNo], msgspec.Meta(max_length=100_000)]
    """The claims of which runs are still held. What a worker does not list for a whole lease is given to others."""
    lease: Lease | None = None
    answered: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    """Up to which number it had the answers to all its claims. Their runs may have begun: what is not listed of them
    counts as lost."""


class Beaten(Answer):
    lease_until: datetime
    cancelled: list[str] = []
    freed: int = 0
    """Runs that were taken back because the worker did not list their claims."""


class LogLine(Request):
    at: Annotated[str, msgspec.Meta(max_length=40)]
    """When, such as 2027-01-31T09:00:00.123+00:00."""
    level: Annotated[str, msgspec.Meta(max_length=LEVEL_LENGTH)] = "INFO"
    text: Annotated[str, msgspec.Meta(max_length=LINE_LENGTH)] = ""


class Logs(Request):
    """What an attempt has logged."""

    lines: Annotated[list[LogLine], msgspec.Meta(max_length=LOG_LINES)]
    dropped: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Lines that were too many."""


class Report(Request):
    """How one attempt ended."""

    run_id: Ident
    fence: Fence
    state: Literal["SUCCEEDED", "FAILED", "SNOOZED", "CANCELLED", "SKIPPED"]
    result: Any = None
    error: Annotated[str, msgspec.Meta(max_length=100_000)] | None = None
    traceback: Annotated[str, msgspec.Meta(max_length=100_000)] | None = None
    failure: FailureName = "error"
    """The class of a failure."""
    error_types: Annotated[list[Name], msgspec.Meta(max_length=50)] = []
    """Names that the job's `retry_on` and `give_up_on` may name."""
    retry_in: Seconds | None = None
    """FAILED: seconds to wait instead of the policy's backoff. SNOOZED: seconds to wait."""
    final: bool = False
    """FAILED: of no use to try again."""
    logs: Logs | None = None


class Reports(Request):
    completions: Annotated[list[Report], msgspec.Meta(max_length=MOST_RUNS)] = []
    closed_claims: Annotated[list[ClaimNo], msgspec.Meta(max_length=100_000)] = []
    """Claims of which nothing is held any more."""


class Refusals(Answer):
    refused: list[str] = []
    """Runs that belong to another worker by now, or are over: what was said of them was dropped."""


class Note(Request):
    """What a running attempt wants to be remembered."""

    run_id: Ident
    fence: Fence
    progress: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    message: Annotated[str, msgspec.Meta(max_length=500)] | None = None
    checkpoint: Any | msgspec.UnsetType = msgspec.UNSET
    """What the next attempt should start from."""
    logs: Logs | None = None
    """All that it has logged so far; shown while it runs."""


class Notes(Request):
    notes: Annotated[list[Note], msgspec.Meta(max_length=MOST_RUNS)]


class AskParents(Request):
    run_id: Ident
    after: Ident | None = None
    """The job of the last parent of the answer before."""


class ParentOfRun(Answer, omit_defaults=True):
    """A job that a run depended on, or that it runs after."""

    job_id: str
    run_id: str | None = None
    name: str | None = None
    """What it is called in the graph that both belong to."""
    state: Literal["SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"] | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: str | None = None


class Parents(Answer):
    parents: list[ParentOfRun]
    more: bool = False
    """There may be others: ask again with `after`."""


class Compare(Request):
    """Everything that a worker holds under some of its claims."""

    claims: Annotated[list[ClaimNo], msgspec.Meta(max_length=1000)]
    """Claims that were answered a lease ago or earlier."""
    runs: Annotated[list[Ident], msgspec.Meta(max_length=MOST_RUNS)]
    """All the runs of these claims that it holds."""


class Unaccounted(Answer):
    runs: list[str] = []
    """Other runs that the server has under these claims, 1,000 at most."""


class HeldRun(Request):
    run_id: Ident
    fence: Fence


class HandBack(Request):
    """Runs that were not begun, or that the worker has no time to finish."""

    runs: Annotated[list[HeldRun], msgspec.Meta(max_length=100_000)] = []
    claims: Annotated[list[ClaimNo], msgspec.Meta(max_length=1000)] = []
    """Claims whose answer never came: whatever they brought waits again, and nothing is claimed under them any more."""
    not_held: Annotated[list[Ident], msgspec.Meta(max_length=1000)] = []
    """Runs that the worker does not hold, though it was asked to stop them, or the server has them under its claims:
    they count as lost, and end if they were cancelled."""


class HandedBack(Answer):
    handed_back: int


class Left(Answer):
    left: Literal[True] = True
