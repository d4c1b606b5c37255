-- take_ended: ends that jobs wait for, to be handed on now; not those that another node hands on
delete from duetime.ended where run_id in (
    select run_id from duetime.ended order by run_id limit :limit for update skip locked)
returning run_id, job_id, tenant_id, end_state, started_at, finished_at;

-- take_ends_of_graph: those of the nodes of a graph; what another node hands on is waited for
delete from duetime.ended where run_id in (
    select e.run_id from duetime.nodes n join duetime.ended e on e.job_id = n.job_id
    where n.graph_id = :graph_id and n.tenant_id = :tenant_id order by e.run_id for update of e)
returning run_id, job_id, tenant_id, end_state, started_at, finished_at;

-- has_ends: whether ends of nodes of a graph have not been handed on
select exists (
    select 1 from duetime.nodes n join duetime.ended e on e.job_id = n.job_id
    where n.graph_id = :graph_id and n.tenant_id = :tenant_id) as known;

-- hold_dependents: jobs whose fate is open, held in the order in which all transactions do
select job_id, tenant_id, run_id, need, wanted, otherwise, unended, met, unmet from duetime.dependents
where job_id = any(:ids::uuid[]) and not settled order by job_id for update;

-- free_blocked: give their lanes to runs whose parents ended as they want
update duetime.runs
set lane_id = home_lane, waits = WaitsFor.NOTHING, ready_at = greatest(due_at, duetime.clock())
where id = any(:ids::uuid[]) and lane_id is null and waits = WaitsFor.PARENTS;

-- nodes_of_jobs: the graphs that jobs are nodes of, and whether each has not ended yet; held
select job_id, graph_id, state is null as open from duetime.nodes
where job_id = any(:ids::uuid[]) order by job_id for update;

-- end_graphs: say how graphs ended
update duetime.graphs as g set status = case
    when exists (select 1 from duetime.nodes n where n.graph_id = g.id and n.state = RunState.FAILED) then 'FAILED'
    when exists (select 1 from duetime.nodes n where n.graph_id = g.id and n.state <> RunState.SUCCEEDED)
        then 'CANCELLED'
    else 'SUCCEEDED' end
where g.id = any(:ids::uuid[]) and g.unended = 0;

-- find_followers: the jobs that run after these
select parent_id, job_id, wanted from duetime.followers where parent_id = any(:ids::uuid[]);

-- hold_followers: jobs that run after others, held in the order in which all transactions do
select id, tenant_id, task, queue, tier, state, args, options, timeout_ms, followed from duetime.jobs
where id = any(:ids::uuid[]) and state < JobState.ENDED order by id for update;

-- follow_jobs: wait for the ends of the runs of jobs in their first home
update duetime.jobs set followed = true
where tenant_id = :tenant_id and id = any(:ids::uuid[]) and state < JobState.ENDED
returning id, recurring;

-- hold_parents: live runs of these jobs, held against completion in the order in which all transactions do
select id from duetime.runs where tenant_id = :tenant_id and job_id = any(:ids::uuid[])
-- by bytes, or the index of ids might be read whole for its order
order by uuid_send(id) for update;

-- drop_rules: forget by which rule jobs waited
delete from duetime.dependents where tenant_id = :tenant_id and job_id = any(:ids::uuid[]);

-- drop_edges: forget what jobs depended on
delete from duetime.edges where tenant_id = :tenant_id and child_id = any(:ids::uuid[]);

-- refollow_runs: runs of jobs that were replaced are waited for like those before
update duetime.runs as r set followed = true
where r.tenant_id = :tenant_id and r.job_id = any(:ids::uuid[]) and (
    exists (select 1 from duetime.edges e where e.parent_id = r.job_id)
    or exists (select 1 from duetime.followers f where f.parent_id = r.job_id));

-- refollow_jobs: jobs that were replaced are waited for like those before
update duetime.jobs as j set followed = true
where j.tenant_id = :tenant_id and j.id = any(:ids::uuid[]) and (
    exists (select 1 from duetime.edges e where e.parent_id = j.id)
    or exists (select 1 from duetime.followers f where f.parent_id = j.id));

-- insert_follower: store a job that runs after another
insert into duetime.jobs (id, tenant_id, task, queue, tier, schedule, recurring, args, options, timeout_ms, version,
    created_at)
values (:job_id, :tenant_id, :task, :queue, :tier, :schedule, true, :args, :options, :timeout_ms, :version,
    duetime.now());

-- put_follower: remember what it runs after
insert into duetime.followers (parent_id, job_id, tenant_id, wanted) values (:parent_id, :job_id, :tenant_id, :wanted);

-- insert_graph: store a graph
insert into duetime.graphs (id, tenant_id, name, nodes, unended, created_at)
values (:graph_id, :tenant_id, :name, :nodes, :nodes, duetime.now());

-- find_graph: a graph
select id, tenant_id, name, status, nodes, created_at, ended_at from duetime.graphs
where tenant_id = :tenant_id and id = :graph_id;

-- list_graphs: graphs, newest first
select id, tenant_id, name, status, nodes, created_at, ended_at from duetime.graphs
where tenant_id = any(array[:tenant_id::int]) and id < :before order by tenant_id desc, id desc limit :limit;

-- open_graph: a graph runs again
update duetime.graphs set unended = :unended, ended_at = null, status = 'RUNNING'
where tenant_id = :tenant_id and id = :graph_id;

-- followed_run: the run whose end made another
select h.job_id, h.run_id, null::text as name, l.task, h.end_state, h.result, substr(h.error, 1, 500) as error
from duetime.history h join duetime.lanes l on l.id = h.lane_id
where h.tenant_id = :tenant_id and h.run_id = :run_id and h.end_state is not null order by h.fence desc limit 1;

-- what_is_run: what a run belongs to, in either home
select job_id, options from duetime.runs where tenant_id is not distinct from :tenant_id and id = :run_id
union all
select job_id, options from duetime.history
where tenant_id = :tenant_id and run_id = :run_id and end_state is not null;

-- what_is_held: what a run belongs to that a worker holds
select tenant_id, job_id, options from duetime.runs where worker_id = :worker_id and id = :run_id;

-- edges_of_graph: what depends on what in a graph, by place. Each edge is looked up: before a new graph has been analyzed, a
-- planner that may join believes in a few rows, and compares all with all
select p.place as parent, c.place as child from duetime.nodes c
cross join lateral (select * from duetime.edges e where e.child_id = c.job_id offset 0) e
cross join lateral (
    select * from duetime.nodes p where p.job_id = e.parent_id and p.graph_id = c.graph_id limit 1) p
where c.graph_id = :graph_id and c.tenant_id = :tenant_id order by c.place, p.place;

-- count_graphs: how many graphs of a tenant are not over, up to a bound
select count(*) from (select 1 from duetime.graphs where tenant_id = :tenant_id and ended_at is null limit :most) g;

-- live_runs_of_graph: the runs of a graph that are not over, in the order in which all transactions hold them
select r.id from duetime.nodes n cross join lateral (
    select * from duetime.runs r where r.tenant_id = n.tenant_id and r.job_id = n.job_id offset 0) r
where n.graph_id = :graph_id and n.tenant_id = :tenant_id order by r.id;
