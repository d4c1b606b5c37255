-- count_ends: note on the edges from these parents how they ended, once
update duetime.edges e set state = x.state
from unnest(:job_id::uuid[], :state::smallint[]) as x(job_id, state)
where e.parent_id = x.job_id and e.state is null
returning e.child_id, e.parent_id, e.state;

-- put_tallies: how the parents of jobs stand now
update duetime.dependents d set unended = x.unended, met = x.met, unmet = x.unmet, settled = x.settled
from unnest(:job_id::uuid[], :unended::int[], :met::int[], :unmet::int[], :settled::boolean[])
    as x(job_id, unended, met, unmet, settled)
where d.job_id = x.job_id;

-- hold_blocked: runs that wait for parents, held in the order in which all transactions do
select id from duetime.runs where id = any(:ids::uuid[]) and lane_id is null and waits = WaitsFor.PARENTS
order by id for update;

-- cancel_blocked: end runs whose parents did not end as they want
with done as (
    delete from duetime.runs r using unnest(:run_id::uuid[], :reason::text[]) as x(id, reason)
    where r.id = any(array[x.id]) and r.lane_id is null and r.waits = WaitsFor.PARENTS returning r.*, x.reason
),
kept as (
    insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
        failure, due_at, ready_at, first_started_at, finished_at, timeout_ms, args, options, error)
    select id, job_id, tenant_id, home_lane, fence, attempt, lost, AttemptState.CANCELLED, RunState.CANCELLED,
        FailureClass.CANCELLED, due_at, ready_at, first_started_at, duetime.now(), timeout_ms, args, options, reason
    from done
)
select id, tenant_id from done;

-- end_nodes: keep how nodes of graphs ended
update duetime.nodes n
set state = x.state, run_id = x.run_id, started_at = x.started_at, finished_at = x.finished_at
from unnest(:job_id::uuid[], :run_id::uuid[], :state::smallint[], :started_at::timestamptz[],
            :finished_at::timestamptz[]) as x(job_id, run_id, state, started_at, finished_at)
where n.job_id = x.job_id;

-- count_nodes: count nodes of graphs that ended for the first time
update duetime.graphs g
set unended = g.unended - x.first,
    ended_at = case when g.unended > x.first then null else coalesce(g.ended_at, duetime.clock()) end
from (
    select o.id, x.first from duetime.graphs o
    join unnest(:graph_id::uuid[], :first::int[]) as x(id, first) on x.id = o.id
    order by o.id for update of o
) x
where g.id = x.id
returning g.id, g.unended;

-- count_follows: count the runs that were made of jobs, and those that were not
update duetime.jobs j set made = j.made + x.made, missed = j.missed + x.missed
from unnest(:job_id::uuid[], :made::int[], :missed::int[]) as x(id, made, missed) where j.id = any(array[x.id]);

-- make_followers: make runs of jobs that run after others
insert into duetime.runs (id, job_id, tenant_id, lane_id, home_lane, due_at, ready_at, args, options, timeout_ms,
    followed)
select x.id, x.job_id, x.tenant_id, x.lane, x.lane, x.due_at, greatest(x.due_at, duetime.clock()), x.args, x.options,
    x.timeout_ms, x.followed
from unnest(:run_id::uuid[], :job_id::uuid[], :tenant_id::int[], :lane_id::int[], :due_at::timestamptz[],
            :args::bytea[], :options::bytea[], :timeout_ms::int[], :followed::boolean[])
    as x(id, job_id, tenant_id, lane, due_at, args, options, timeout_ms, followed)
on conflict (id) do nothing
returning id, tenant_id;

-- follow_runs: wait for the ends of these runs; one that waits is ready anew, above the mark of any claim that passed it
update duetime.runs
set followed = true, ready_at = case when worker_id is null then greatest(ready_at, duetime.clock()) else ready_at end
where tenant_id is not distinct from :tenant_id and id = any(:ids::uuid[])
returning job_id;

-- ends_of_jobs: how the newest runs of jobs ended that are over; without a state those that were deleted
select job_id, end_state from duetime.last_ends(:tenant_id, :ids::uuid[])
union all
select job_id, null::smallint from duetime.deleted_jobs where tenant_id = :tenant_id and job_id = any(:ids::uuid[]);

-- insert_dependents: store one-off jobs as their runs; those that wait for parents have no lane yet
with job as materialized (
    select j.*, greatest(coalesce(j.at, duetime.now() + coalesce(j.delay, interval '0')), duetime.now()) as due_at
    from unnest(:job_id::uuid[], :run_id::uuid[], :lane_id::int[], :at::timestamptz[], :delay::interval[],
                :args::bytea[], :options::bytea[], :timeout_ms::int[], :blocked::boolean[])
        as j(id, run_id, lane_id, at, delay, args, options, timeout_ms, blocked)
),
stored as (
    insert into duetime.runs (id, job_id, tenant_id, lane_id, home_lane, waits, due_at, ready_at, args, options,
        timeout_ms, followed, manual)
    select run_id, id, :tenant_id, case when blocked then null else lane_id end, lane_id,
        case when blocked then WaitsFor.PARENTS else WaitsFor.NOTHING end, due_at, greatest(due_at, duetime.clock()),
        args, options, timeout_ms, :followed::boolean, :manual::boolean
    from job
)
select id, due_at from job;

-- put_dependents: remember by which rule jobs wait, and how their parents stand
insert into duetime.dependents (job_id, tenant_id, run_id, need, wanted, otherwise, unended, met, unmet, settled)
select x.job_id, :tenant_id, x.run_id, x.need, x.wanted, x.otherwise, x.unended, x.met, x.unmet, x.settled
from unnest(:job_id::uuid[], :run_id::uuid[], :need::smallint[], :wanted::smallint[], :otherwise::smallint[],
            :unended::int[], :met::int[], :unmet::int[], :settled::boolean[])
    as x(job_id, run_id, need, wanted, otherwise, unended, met, unmet, settled)
on conflict (job_id) do update set run_id = excluded.run_id, need = excluded.need, wanted = excluded.wanted,
    otherwise = excluded.otherwise, unended = excluded.unended, met = excluded.met, unmet = excluded.unmet,
    settled = excluded.settled;

-- put_edges: remember what depends on what
insert into duetime.edges (parent_id, child_id, tenant_id, state)
select x.parent_id, x.child_id, :tenant_id, x.state
from unnest(:parent_id::uuid[], :child_id::uuid[], :state::smallint[]) as x(parent_id, child_id, state)
on conflict (parent_id, child_id) do update set state = excluded.state;

-- insert_nodes: store the nodes of a graph
insert into duetime.nodes (job_id, graph_id, place, tenant_id, name, task, run_id)
select x.job_id, :graph_id, x.place, :tenant_id, x.name, x.task, x.run_id
from unnest(:job_id::uuid[], :place::int[], :name::text[], :task::text[], :run_id::uuid[])
    as x(job_id, place, name, task, run_id);

-- hold_graph: a graph, held against others who run it again
select unended from duetime.graphs where tenant_id = :tenant_id and id = :graph_id for update;

-- nodes_of_graph: the nodes of a graph, with what is known of their newest runs
select n.name, n.job_id, n.task, n.state, n.run_id, n.started_at, n.finished_at, d.need, d.wanted, d.otherwise,
    r.id as live_id, r.worker_id, r.lane_id, r.attempt, r.lost, r.started_at as live_started_at,
    e.run_id as end_id, e.end_state, e.started_at as end_started_at, e.finished_at as end_finished_at
from duetime.nodes n
left join duetime.dependents d on d.job_id = n.job_id
left join lateral (
    select o.* from duetime.runs o where o.tenant_id = n.tenant_id and o.job_id = n.job_id
    -- by bytes, or the index of ids might be read whole for its order
    order by uuid_send(o.id) desc limit 1
) r on true
left join lateral (
    select o.* from duetime.ended o where o.job_id = n.job_id order by o.run_id desc limit 1
) e on true
where n.graph_id = :graph_id and n.tenant_id = :tenant_id order by n.place;

-- ends_of_runs: the rows that ended runs, as history has them
select h.run_id, h.job_id, h.lane_id, h.args, h.options, h.timeout_ms
from unnest(:ids::uuid[]) as w(id) cross join lateral (
    select h.* from duetime.history h where h.tenant_id = :tenant_id and h.run_id = w.id and h.end_state is not null
    order by h.fence desc limit 1
) h;

-- open_edges: let parents that run again be counted again
update duetime.edges set state = null
where tenant_id = :tenant_id and parent_id = any(:ids::uuid[]) and child_id = any(:ids::uuid[]);

-- open_nodes: let nodes that run again be ended again
update duetime.nodes n set state = null, run_id = x.run_id, started_at = null, finished_at = null
from unnest(:job_id::uuid[], :run_id::uuid[]) as x(job_id, run_id) where n.tenant_id = :tenant_id and n.job_id = x.job_id;

-- parents_of_job: the parents of a job by id, and how their newest runs ended
select e.parent_id as job_id, h.run_id, n.name, l.task, h.end_state, h.result, substr(h.error, 1, 500) as error
from (
    select * from duetime.edges e where e.tenant_id = :tenant_id and e.child_id = :job_id and e.parent_id > :after
    order by e.child_id, e.parent_id limit :limit
) e
left join duetime.nodes c on c.job_id = e.child_id
left join duetime.nodes n on n.job_id = e.parent_id and n.graph_id = c.graph_id
left join lateral (
    select h.* from duetime.history h
    where h.tenant_id = :tenant_id and h.job_id between e.parent_id and e.parent_id and h.end_state is not null
        and not exists (select 1 from duetime.runs r where r.tenant_id = :tenant_id and r.job_id = e.parent_id)
    order by h.job_id desc, h.run_id desc limit 1
) h on true
left join duetime.lanes l on l.id = h.lane_id
order by e.parent_id;

-- prune_graphs: remove graphs that ended long ago, with their nodes
with gone as (
    delete from duetime.graphs where id in (
        select id from duetime.graphs where ended_at < :before::timestamptz order by ended_at limit :batch
        for update skip locked)
    returning id
)
delete from duetime.nodes n using gone where n.graph_id = gone.id;
