"""Dependencies: which runs the end of a run frees, cancels and creates: the same for every store."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from duetime.errors import Conflict, InvalidInput, NotFound
from duetime.ids import run_id, show
from duetime.model.dependency import DependsOn, Fate, Need, Otherwise, Parent, Rule, Tally, Wanted, decide
from duetime.model.graph import Graph, GraphItem, GraphStatus, Node, rerun_places
from duetime.model.job import JobState, NewJob, decode_options, encode_options
from duetime.model.run import RunState, live_state
from duetime.model.schedule import After
from duetime.store.rules.job_rows import Fields

WANTED = {"success": Wanted.SUCCESS, "failure": Wanted.FAILURE, "any": Wanted.FINISHED}


class Ended(NamedTuple):
    """An ended run that has dependents."""

    run_id: UUID
    job_id: UUID
    tenant_id: int
    state: int
    started_at: datetime | None
    finished_at: datetime


class Dependent(NamedTuple):
    """The state of a job that depends on others."""

    job_id: UUID
    run_id: UUID
    rule: Rule
    tally: Tally
    settled: bool


class Settlement(NamedTuple):
    tallies: list[tuple[UUID, int, int, int, bool]]
    freed: list[UUID]
    """Runs whose parents ended as required."""
    cancelled: list[tuple[UUID, str]]
    """Runs whose parents did not, each with the reason."""


def stored_rule(row: Fields) -> Rule:
    return Rule(Need(row["need"]), Wanted(row["wanted"]), Otherwise(row["otherwise"]))


def settle(counted: Iterable[tuple[UUID, UUID, int]], dependents: Iterable[Fields]) -> Settlement:
    """What the ends of parents (child, parent, state) decide for their open dependents."""
    ends: dict[UUID, list[tuple[UUID, RunState]]] = defaultdict(list)
    for child, parent, state in counted:
        ends[child].append((parent, RunState(state)))
    done = Settlement([], [], [])
    for row in dependents:
        rule, ended = stored_rule(row), ends[row["job_id"]]
        tally = Tally(row["unended"], row["met"], row["unmet"]).after(rule, *(state for _, state in ended))
        fate = decide(rule, tally)
        done.tallies.append((row["job_id"], *tally, fate is not Fate.WAIT))
        if fate is Fate.RUN:
            done.freed.append(row["run_id"])
        elif fate is Fate.CANCEL:
            done.cancelled.append((row["run_id"], why_cancelled(rule, ended)))
    return done


def why_cancelled(rule: Rule, ended: Iterable[tuple[UUID, RunState]]) -> str:
    parent, state = next(item for item in ended if not rule.wanted.is_met(item[1]))
    return f"it depends on {show('job', parent)}, which ended {state.name}"


class Standing(NamedTuple):
    """The states of jobs that new jobs depend on."""

    live: frozenset[UUID]
    """The parents that have not ended. Their ends are recorded from now on."""
    recurring: frozenset[UUID]
    ended: Mapping[UUID, RunState]


def plan_dependent(job: NewJob, own_run: UUID, standing: Standing, field: str = "depends_on") -> Dependent:
    """The state of a new job by its parents. Refuses parents that a job cannot depend on."""
    depends_on = job.depends_on
    assert depends_on is not None
    states = []
    for parent in depends_on.parents:
        if parent in standing.recurring:
            raise InvalidInput(
                f"{show('job', parent)} is recurring", field=field, remedy="use after, or a job that runs once"
            )
        if parent in standing.live:
            continue
        if parent not in standing.ended:
            raise InvalidInput(f"there is no job {show('job', parent)}", field=field)
        states.append(standing.ended[parent])
    tally = Tally(len(depends_on.parents)).after(depends_on.rule, *states)
    return Dependent(job.id, own_run, depends_on.rule, tally, decide(depends_on.rule, tally) is not Fate.WAIT)


def why_cancelled_at_once(depends_on: DependsOn, standing: Standing) -> str:
    ended = [(parent, standing.ended[parent]) for parent in depends_on.parents if parent not in standing.live]
    return why_cancelled(depends_on.rule, ended)


def dependent_rows(dependents: Iterable[Dependent]) -> list[tuple[UUID, UUID, int, int, int, int, int, int, bool]]:
    return [
        (
            item.job_id,
            item.run_id,
            *(int(part) for part in msgspec.structs.astuple(item.rule)),
            *item.tally,
            item.settled,
        )  # type: ignore[misc]
        for item in dependents
    ]


def check_followed(schedule: After, standing: Standing) -> None:
    """Whether a job can run after another, which must be able to run again."""
    if schedule.job not in standing.live | standing.recurring:
        over = schedule.job in standing.ended
        what = "has ended" if over else "does not exist"
        raise InvalidInput(f"{show('job', schedule.job)} {what}", field="after.job", remedy="name a job that runs")


class Following(NamedTuple):
    """A run of a job that runs after others."""

    run_id: UUID
    job_id: UUID
    tenant_id: int
    lane_id: int
    due_at: datetime
    args: bytes
    options: bytes | None
    timeout_ms: int | None
    followed: bool


def wanted_follows(followers: Iterable[tuple[UUID, UUID, int]], ended: Sequence[Ended]) -> dict[UUID, list[Ended]]:
    """For each job that runs after others (parent, job, wanted), the ends that create a run of it."""
    by_parent: dict[UUID, list[Ended]] = defaultdict(list)
    for item in ended:
        by_parent[item.job_id].append(item)
    found: dict[UUID, list[Ended]] = defaultdict(list)
    for parent, job, wanted in followers:
        found[job] += [item for item in by_parent[parent] if Wanted(wanted).is_met(RunState(item.state))]
    return {job: items for job, items in found.items() if items}


def is_paused(row: Fields) -> bool:
    return bool(row["state"] == JobState.PAUSED)


def following(row: Fields, lane_id: int, cause: Ended) -> Following:
    """The run that another run's end creates. Its id is computed from that run, so that it is created once."""
    said = msgspec.structs.replace(decode_options(row["options"]), follows=show("run", cause.run_id))
    return Following(
        run_id=run_id(row["id"], cause.finished_at, cause.run_id.bytes),
        job_id=row["id"],
        tenant_id=row["tenant_id"],
        lane_id=lane_id,
        due_at=cause.finished_at,
        args=row["args"],
        options=encode_options(said),
        timeout_ms=row["timeout_ms"],
        followed=bool(row["followed"]),
    )


def graph_item(row: Fields) -> GraphItem:
    return GraphItem(
        row["id"],
        row["tenant_id"],
        row["name"],
        GraphStatus(row["status"]),
        row["nodes"],
        row["created_at"],
        row["ended_at"],
    )


def node(row: Fields) -> Node:
    """The state of a node. A live run, or an end that is not settled yet, overrides the stored state."""
    state, run, started_at, finished_at = row["state"], row["run_id"], row["started_at"], row["finished_at"]
    if row["live_id"] is not None:
        claimed = row["worker_id"] is not None
        has_lane = row["lane_id"] is not None
        state = live_state(claimed=claimed, has_lane=has_lane, attempt=row["attempt"], lost=row["lost"])
        run, started_at, finished_at = row["live_id"], row["live_started_at"] if claimed else None, None
    elif row["end_state"] is not None:
        state, run, started_at, finished_at = (
            row[name] for name in ("end_state", "end_id", "end_started_at", "end_finished_at")
        )
    rule = Rule() if row["need"] is None else stored_rule(row)
    shown = RunState.PENDING if state is None else RunState(state)
    return Node(row["name"], row["job_id"], run, row["task"], shown, started_at, finished_at, rule)


def parent(row: Fields) -> Parent:
    state = None if row["end_state"] is None else RunState(row["end_state"])
    return Parent(row["job_id"], row["run_id"], row["name"], row["task"], state, row["result"], row["error"])


class Rerun(NamedTuple):
    places: list[int]
    dependents: list[Dependent]
    """Those of them that have parents."""
    blocked: frozenset[int]


def check_over(graph: Graph, *, but: Sequence[RunState] = ()) -> None:
    """Raises `Conflict` while a node has neither ended nor is in one of these states."""
    for node in graph.nodes:
        if not node.state.is_end and node.state not in but:
            raise Conflict(
                f"the node {node.name!r} is {node.state.name}", remedy="wait for its end, or cancel the graph"
            )


def plan_rerun(graph: Graph) -> Rerun:
    """Which nodes run again, and which of them wait for others that do."""
    check_over(graph)
    again = rerun_places([node.state for node in graph.nodes], graph.edges)
    if not again:
        raise Conflict("all nodes of this graph succeeded", remedy="submit it again to run it once more")
    parents: dict[int, list[int]] = defaultdict(list)
    for first, second in graph.edges:
        if second in again:
            parents[second].append(first)
    dependents, blocked = [], set()
    for place, places in sorted(parents.items()):
        node = graph.nodes[place]
        kept = [graph.nodes[other].state for other in places if other not in again]
        tally = Tally(len(places)).after(node.rule, *kept)
        fate = decide(node.rule, tally)
        assert fate is not Fate.CANCEL, "what stays has succeeded"
        if fate is Fate.WAIT:
            blocked.add(place)
        dependents.append(Dependent(node.job_id, node.run_id, node.rule, tally, fate is not Fate.WAIT))
    return Rerun(sorted(again), dependents, frozenset(blocked))


def no_graph(graph_id: UUID) -> NotFound:
    return NotFound(f"there is no graph {show('gra', graph_id)}")


def nothing_kept(names: Iterable[str]) -> Conflict:
    return Conflict(f"the history of the run of {next(iter(names))!r} was pruned", remedy="submit the graph again")
