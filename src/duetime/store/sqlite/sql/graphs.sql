-- any_followed: whether any run has dependents
select 1 from runs where followed limit 1;

-- note_ends: record the ends of those of these runs that have dependents
insert into ended (run_id, job_id, tenant_id, end_state, started_at, finished_at)
select r.id, r.job_id, r.tenant_id, x.value, r.started_at, :now
from json_each(:states) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
where r.followed;

-- count_ends: note on the edges from a parent how it ended, once
update edges set state = :state where parent_id = :job_id and state is null returning child_id, parent_id, state;

-- put_tallies: how the parents of a job stand now
update dependents set unended = :unended, met = :met, unmet = :unmet, settled = :settled where job_id = :job_id;

-- cancel_blocked: end a run whose parents did not end as it wants
insert into ended (run_id, job_id, tenant_id, end_state, finished_at)
select id, job_id, tenant_id, RunState.CANCELLED, :now from runs
where id = :run_id and lane_id is null and waits = WaitsFor.PARENTS and followed;
insert into history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state, failure,
    due_at, ready_at, first_started_at, finished_at, timeout_ms, args, options, error)
select id, job_id, tenant_id, home_lane, fence, attempt, lost, AttemptState.CANCELLED, RunState.CANCELLED,
    FailureClass.CANCELLED, due_at, ready_at, first_started_at, :now, timeout_ms, args, options, :reason
from runs where id = :run_id and lane_id is null and waits = WaitsFor.PARENTS;
delete from runs where id = :run_id and lane_id is null and waits = WaitsFor.PARENTS returning id, tenant_id;

-- end_nodes: keep how a node of a graph ended
update nodes set state = :state, run_id = :run_id, started_at = :started_at, finished_at = :finished_at
where job_id = :job_id;

-- count_nodes: count nodes of a graph that ended for the first time
update graphs set unended = unended - :first,
    ended_at = case when unended > :first then null else coalesce(ended_at, :now) end
where id = :graph_id returning id, unended;

-- count_follows: count the runs that were made of a job, and those that were not
update jobs set made = made + :made, missed = missed + :missed where id = :job_id;

-- make_followers: make a run of a job that runs after another
insert into runs (id, job_id, tenant_id, lane_id, home_lane, due_at, ready_at, args, options, timeout_ms, followed)
values (:run_id, :job_id, :tenant_id, :lane_id, :lane_id, :due_at, max(:due_at, :now), :args, :options, :timeout_ms,
    :followed)
on conflict (id) do nothing
returning id, tenant_id;

-- follow_runs: wait for the ends of these runs
update runs set followed = 1
where +tenant_id = :tenant_id and id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:ids_places) x)
returning job_id;

-- ends_of_jobs: how the newest runs of jobs ended that are over; without a state those that were deleted
select h.job_id, h.end_state from json_each(:ids_places) x cross join history h on h.rowid = (
    select o.rowid from history o
    where o.tenant_id = :tenant_id and o.job_id = substr(:ids, x.key * 16 + 1, 16) and o.end_state is not null
    order by o.run_id desc limit 1)
union all
select job_id, null from deleted_jobs
where tenant_id = :tenant_id and job_id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:ids_places) x);

-- insert_dependents: store a one-off job as its run; one that waits for parents has no lane yet
insert into runs (id, job_id, tenant_id, lane_id, home_lane, waits, due_at, ready_at, args, options, timeout_ms,
    followed, manual)
select :run_id, :job_id, :tenant_id, case when :blocked then null else :lane_id end, :lane_id,
    case when :blocked then WaitsFor.PARENTS else WaitsFor.NOTHING end, due, due, :args, :options, :timeout_ms,
    :followed, :manual
from (select max(coalesce(:at, :now + coalesce(:delay, 0)), :now) as due)
returning job_id as id, due_at;

-- put_dependents: remember by which rule a job waits, and how its parents stand
insert into dependents (tenant_id, job_id, run_id, need, wanted, otherwise, unended, met, unmet, settled)
values (:tenant_id, :job_id, :run_id, :need, :wanted, :otherwise, :unended, :met, :unmet, :settled)
on conflict (job_id) do update set run_id = excluded.run_id, need = excluded.need, wanted = excluded.wanted,
    otherwise = excluded.otherwise, unended = excluded.unended, met = excluded.met, unmet = excluded.unmet,
    settled = excluded.settled;

-- put_edges: remember what depends on what
insert into edges (tenant_id, parent_id, child_id, state) values (:tenant_id, :parent_id, :child_id, :state)
on conflict (parent_id, child_id) do update set state = excluded.state;

-- insert_nodes: store a node of a graph
insert into nodes (tenant_id, graph_id, job_id, place, name, task, run_id)
values (:tenant_id, :graph_id, :job_id, :place, :name, :task, :run_id);

-- nodes_of_graph: the nodes of a graph, with what is known of their newest runs
select n.name, n.job_id, n.task, n.state, n.run_id, n.started_at, n.finished_at, d.need, d.wanted, d.otherwise,
    r.id as live_id, r.worker_id, r.lane_id, r.attempt, r.lost, r.started_at as live_started_at,
    e.run_id as end_id, e.end_state, e.started_at as end_started_at, e.finished_at as end_finished_at
from nodes n
left join dependents d on d.job_id = n.job_id
left join runs r on r.tenant_id = n.tenant_id and r.job_id = n.job_id
    and r.id = (select max(o.id) from runs o where o.tenant_id = n.tenant_id and o.job_id = n.job_id)
left join ended e on e.run_id = (select max(o.run_id) from ended o where o.job_id = n.job_id)
where n.graph_id = :graph_id and n.tenant_id = :tenant_id order by n.place;

-- ends_of_runs: the rows that ended runs, as history has them
select h.run_id, h.job_id, h.lane_id, h.args, h.options, h.timeout_ms
from json_each(:ids_places) x cross join history h on h.rowid = (
    select o.rowid from history o
    where o.tenant_id = :tenant_id and o.run_id = substr(:ids, x.key * 16 + 1, 16) and o.end_state is not null
    order by o.fence desc limit 1);

-- open_edges: let parents that run again be counted again. The plus keeps the planner from trying every pair of them
update edges set state = null
where tenant_id = :tenant_id and parent_id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:ids_places) x)
    and +child_id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:ids_places) x);

-- open_nodes: let a node that runs again be ended again
update nodes set state = null, run_id = :run_id, started_at = null, finished_at = null
where tenant_id = :tenant_id and job_id = :job_id;

-- parents_of_job: the parents of a job by id, and how their newest runs ended
select e.parent_id as job_id, h.run_id, n.name, l.task, h.end_state, h.result, substr(h.error, 1, 500) as error
from (
    select * from edges where tenant_id = :tenant_id and child_id = :job_id and parent_id > :after
    order by parent_id limit :limit
) e
left join nodes c on c.job_id = e.child_id
left join nodes n on n.job_id = e.parent_id and n.graph_id = c.graph_id
left join history h on h.tenant_id = :tenant_id and h.job_id = e.parent_id and h.end_state is not null
    and h.run_id = (
        select max(o.run_id) from history o
        where o.tenant_id = :tenant_id and o.job_id = e.parent_id and o.end_state is not null)
    and not exists (select 1 from runs r where r.tenant_id = :tenant_id and r.job_id = e.parent_id)
left join lanes l on l.id = h.lane_id
order by e.parent_id;

-- prune_graphs: remove graphs that ended long ago, with their nodes
delete from nodes where graph_id in (
    select id from graphs where ended_at < :before order by ended_at limit :batch);
delete from graphs where id in (select id from graphs where ended_at < :before order by ended_at limit :batch);
