-- any_followed: whether any run has dependents
select 1 from runs where followed limit 1;

-- note_ends: record the ends of those of these runs that have dependents
insert into ended (run_id, job_id, tenant_id, end_state, started_at, finished_at)
select r.id, r.job_id, r.tenant_id, x.value, r.started_at, :now
from json_each(:states) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
where r.followed;

-- take_ended: ends with dependents, to be settled now
select run_id, job_id, tenant_id, end_state, started_at, finished_at from ended order by run_id limit :limit;

-- take_ends_of_graph: those of the nodes of a graph
select e.run_id, e.job_id, e.tenant_id, e.end_state, e.started_at, e.finished_at
from nodes n join ended e on e.job_id = n.job_id
where n.graph_id = :graph_id and n.tenant_id = :tenant_id order by e.run_id;

-- drop_ended: an end that is handed on
delete from ended where run_id = :run_id;

-- count_ends: note on the edges from a parent how it ended, once
update edges set state = :state where parent_id = :job_id and state is null returning child_id, parent_id, state;

-- hold_dependents: a job whose fate is open
select job_id, tenant_id, run_id, need, wanted, otherwise, unended, met, unmet from dependents
where job_id = :job_id and not settled;

-- put_tallies: how the parents of a job stand now
update dependents set unended = ?2, met = ?3, unmet = ?4, settled = ?5 where job_id = ?1;

-- free_blocked: give its lane to a run whose parents ended as it wants
update runs set lane_id = home_lane, waits = 0, ready_at = max(due_at, :now)
where id = :run_id and lane_id is null and waits = 2;

-- cancel_blocked: end a run whose parents did not end as it wants
insert into ended (run_id, job_id, tenant_id, end_state, finished_at)
select id, job_id, tenant_id, 6, :now from runs where id = :run_id and lane_id is null and waits = 2 and followed;
insert into history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state, failure,
    due_at, ready_at, first_started_at, finished_at, timeout_ms, args, options, error)
select id, job_id, tenant_id, home_lane, fence, attempt, lost, 5, 6, 4, due_at, ready_at, first_started_at, :now,
    timeout_ms, args, options, :reason
from runs where id = :run_id and lane_id is null and waits = 2;
delete from runs where id = :run_id and lane_id is null and waits = 2;

-- which_graph: the graph that a job is a node of, and whether the node has not ended yet
select graph_id, state is null from nodes where job_id = :job_id;

-- end_nodes: keep how a node of a graph ended
update nodes set state = :state, run_id = :run_id, started_at = :started_at, finished_at = :finished_at
where job_id = :job_id;

-- count_nodes: count nodes of a graph that ended; whether it is over
update graphs set unended = unended - :first,
    ended_at = case when unended > :first then null else coalesce(ended_at, :now) end
where id = :id returning unended;

-- end_graphs: say how a graph ended
update graphs set status = case
    when exists (select 1 from nodes n where n.graph_id = graphs.id and n.state = 5) then 'FAILED'
    when exists (select 1 from nodes n where n.graph_id = graphs.id and n.state <> 4) then 'CANCELLED'
    else 'SUCCEEDED' end
where id = :id and unended = 0;

-- find_followers: the jobs that run after another
select parent_id, job_id, wanted from followers where parent_id = :job_id;

-- hold_followers: a job that runs after others
select id, tenant_id, task, queue, tier, state, args, options, timeout_ms, followed from jobs
where id = :job_id and state < 2;

-- count_follows: count the runs that were made of a job, and those that were not
update jobs set made = made + :made, missed = missed + :missed where id = :job_id;

-- make_followers: make a run of a job that runs after another
insert into runs (id, job_id, tenant_id, lane_id, home_lane, due_at, ready_at, args, options, timeout_ms, followed)
values (:run_id, :job_id, :tenant_id, :lane_id, :lane_id, :due_at, max(:due_at, :now), :args, :options, :timeout_ms,
    :followed)
on conflict (id) do nothing;

-- follow_jobs: wait for the ends of the runs of a job in its first home
update jobs set followed = 1 where tenant_id = :tenant_id and id = :job_id and state < 2 returning recurring;

-- follow_runs: wait for the ends of the live runs of a job
update runs set followed = 1 where tenant_id = :tenant_id and job_id = :job_id returning job_id;

-- ends_of_jobs: how the newest run of a job ended that is over
select end_state from history where tenant_id = :tenant_id and job_id = :job_id and end_state is not null
order by run_id desc limit 1;

-- insert_dependents: store a one-off job as its run; one that waits for parents has no lane yet
insert into runs (id, job_id, tenant_id, lane_id, home_lane, waits, due_at, ready_at, args, options, timeout_ms,
    followed, manual)
values (:run_id, :job_id, :tenant_id, case when :blocked then null else :lane_id end, :lane_id,
    case when :blocked then 2 else 0 end, :due_at, max(:due_at, :now), :args, :options, :timeout_ms, :followed, :manual);

-- put_dependents: remember by which rule a job waits, and how its parents stand
insert into dependents (tenant_id, job_id, run_id, need, wanted, otherwise, unended, met, unmet, settled)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (job_id) do update set run_id = excluded.run_id, need = excluded.need, wanted = excluded.wanted,
    otherwise = excluded.otherwise, unended = excluded.unended, met = excluded.met, unmet = excluded.unmet,
    settled = excluded.settled;

-- put_edges: remember what depends on what
insert into edges (tenant_id, parent_id, child_id, state) values (?, ?, ?, ?)
on conflict (parent_id, child_id) do update set state = excluded.state;

-- is_waited_for: whether a run waits for the end of a job
select 1 from edges e
join dependents d on d.job_id = e.child_id and not d.settled
join runs r on r.id = d.run_id and r.lane_id is null and r.waits = 2
where e.tenant_id = :tenant_id and e.parent_id = :job_id and e.state is null limit 1;

-- drop_edges: forget what a job depended on
delete from dependents where tenant_id = :tenant_id and job_id = :job_id;
delete from edges where tenant_id = :tenant_id and child_id = :job_id;

-- refollow_runs: runs of a job that was replaced are waited for like those before
update runs set followed = 1 where tenant_id = :tenant_id and job_id = :job_id and (
    exists (select 1 from edges e where e.parent_id = :job_id)
    or exists (select 1 from followers f where f.parent_id = :job_id));

-- refollow_jobs: a job that was replaced is waited for like the one before
update jobs set followed = 1 where tenant_id = :tenant_id and id = :job_id and (
    exists (select 1 from edges e where e.parent_id = :job_id)
    or exists (select 1 from followers f where f.parent_id = :job_id));

-- insert_follower: store a job that runs after another
insert into jobs (id, tenant_id, task, queue, tier, schedule, recurring, args, options, timeout_ms, version, created_at)
values (:id, :tenant_id, :task, :queue, :tier, :schedule, 1, :args, :options, :timeout_ms, :version, :now);
insert into followers (parent_id, job_id, tenant_id, wanted) values (:parent_id, :id, :tenant_id, :wanted);

-- insert_graph: store a graph
insert into graphs (id, tenant_id, name, nodes, unended, created_at)
values (:id, :tenant_id, :name, :nodes, :nodes, :now);

-- insert_nodes: store a node of a graph
insert into nodes (tenant_id, graph_id, job_id, place, name, task, run_id) values (?, ?, ?, ?, ?, ?, ?);

-- find_graph: a graph
select id, tenant_id, name, status, nodes, created_at, ended_at from graphs
where tenant_id = :tenant_id and id = :graph_id;

-- list_graphs: graphs, newest first
select id, tenant_id, name, status, nodes, created_at, ended_at from graphs
where tenant_id = :tenant_id and id < :before order by id desc limit :limit;

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

-- edges_of_graph: what depends on what in a graph, by place
select p.place, c.place from nodes c
join edges e on e.child_id = c.job_id
join nodes p on p.job_id = e.parent_id and p.graph_id = c.graph_id
where c.graph_id = :graph_id and c.tenant_id = :tenant_id order by c.place, p.place;

-- live_runs_of_graph: the runs of a graph that are not over
select r.id from nodes n join runs r on r.tenant_id = n.tenant_id and r.job_id = n.job_id
where n.graph_id = :graph_id and n.tenant_id = :tenant_id order by r.id;

-- ends_of_runs: the row that ended a run, as history has it
select run_id, job_id, lane_id, args, options, timeout_ms from history
where tenant_id = :tenant_id and run_id = :run_id and end_state is not null order by fence desc limit 1;

-- open_edges: let a parent that runs again be counted again by a child that does
update edges set state = null where tenant_id = ? and parent_id = ? and child_id = ?;

-- open_nodes: let a node that runs again be ended again
update nodes set state = null, run_id = :run_id, started_at = null, finished_at = null
where tenant_id = :tenant_id and job_id = :job_id;

-- open_graph: a graph runs again
update graphs set unended = :unended, ended_at = null, status = 'RUNNING'
where tenant_id = :tenant_id and id = :graph_id;

-- parents_of_job: the parents of a job by id, and how their newest runs ended
select e.parent_id as job_id, h.run_id, n.name, h.end_state, h.result, substr(h.error, 1, 500) as error
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
order by e.parent_id;

-- followed_run: the run whose end made another
select job_id, run_id, null as name, end_state, result, substr(error, 1, 500) as error from history
where tenant_id = :tenant_id and run_id = :run_id and end_state is not null order by fence desc limit 1;

-- what_is_run: what a run belongs to, in either home
select job_id, options from runs where tenant_id = :tenant_id and id = :run_id
union all
select job_id, options from history where tenant_id = :tenant_id and run_id = :run_id and end_state is not null;

-- what_is_held: what a run belongs to that a worker holds
select tenant_id, job_id, options from runs where worker_id = :worker_id and id = :run_id;

-- prune_graphs: remove graphs that ended long ago, with their nodes
delete from nodes where graph_id in (
    select id from graphs where ended_at < :before order by ended_at limit :batch);
delete from graphs where id in (select id from graphs where ended_at < :before order by ended_at limit :batch);

-- edges_in_turn: jobs that depend on others, from old to young
select job_id from dependents where job_id > :after and job_id < :before order by job_id limit :batch;

-- sweep_edges: forget what those of these jobs depended on that are nowhere any more
delete from dependents where job_id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:places) x)
    and not exists (select 1 from runs r where r.tenant_id = dependents.tenant_id and r.job_id = dependents.job_id)
    and not exists (select 1 from nodes n where n.job_id = dependents.job_id)
    and not exists (select 1 from history h where h.tenant_id = dependents.tenant_id and h.job_id = dependents.job_id
        and h.end_state is not null);
delete from edges where child_id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:places) x)
    and not exists (select 1 from dependents d where d.job_id = edges.child_id);

-- prune_followers: forget who ran after others and is gone
delete from followers where (parent_id, job_id) in (
    select f.parent_id, f.job_id from followers f
    where not exists (select 1 from jobs j where j.id = f.job_id) limit :batch);
