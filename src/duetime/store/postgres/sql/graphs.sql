-- take_ended: ends with dependents, to be settled now; not those that another node is settling
delete from duetime.ended where run_id in (
    select run_id from duetime.ended order by run_id limit $1 for update skip locked)
returning run_id, job_id, tenant_id, end_state, started_at, finished_at;

-- take_ends_of_graph: those of the nodes of a graph; what another node hands on is waited for
delete from duetime.ended where run_id in (
    select e.run_id from duetime.nodes n join duetime.ended e on e.job_id = n.job_id
    where n.graph_id = $2 and n.tenant_id = $1 order by e.run_id for update of e)
returning run_id, job_id, tenant_id, end_state, started_at, finished_at;

-- has_ends: whether ends of nodes of a graph have not been handed on
select exists (
    select 1 from duetime.nodes n join duetime.ended e on e.job_id = n.job_id
    where n.graph_id = $2 and n.tenant_id = $1);

-- count_ends: note on the edges from these parents how they ended, once
update duetime.edges e set state = x.state
from unnest($1::uuid[], $2::smallint[]) as x(job_id, state)
where e.parent_id = x.job_id and e.state is null
returning e.child_id, e.parent_id, e.state;

-- hold_dependents: jobs whose fate is open, held in the order in which everybody does
select job_id, tenant_id, run_id, need, wanted, otherwise, unended, met, unmet from duetime.dependents
where job_id = any($1::uuid[]) and not settled order by job_id for update;

-- put_tallies: how the parents of jobs stand now
update duetime.dependents d set unended = x.unended, met = x.met, unmet = x.unmet, settled = x.settled
from unnest($1::uuid[], $2::int[], $3::int[], $4::int[], $5::boolean[]) as x(job_id, unended, met, unmet, settled)
where d.job_id = x.job_id;

-- hold_blocked: runs that wait for parents, held in the order in which everybody does
select id from duetime.runs where id = any($1::uuid[]) and lane_id is null and waits = 2 order by id for update;

-- free_blocked: give their lanes to runs whose parents ended as they want
update duetime.runs set lane_id = home_lane, waits = 0, ready_at = greatest(due_at, duetime.clock())
where id = any($1::uuid[]) and lane_id is null and waits = 2;

-- cancel_blocked: end runs whose parents did not end as they want
with done as (
    delete from duetime.runs r using unnest($1::uuid[], $2::text[]) as x(id, reason)
    where r.id = any(array[x.id]) and r.lane_id is null and r.waits = 2 returning r.*, x.reason
),
kept as (
    insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
        failure, due_at, ready_at, first_started_at, finished_at, timeout_ms, args, options, error)
    select id, job_id, tenant_id, home_lane, fence, attempt, lost, 5, 6, 4, due_at, ready_at, first_started_at,
        duetime.now(), timeout_ms, args, options, reason
    from done
),
told as (
    insert into duetime.events (at, kind, tenant_id, ids)
    select duetime.now(), 6, d.tenant_id, array_agg(d.id) from done d
    where (select l.until > duetime.now() from duetime.listening l where l.one) group by d.tenant_id
)
select count(*) from done;

-- end_nodes: keep how nodes of graphs ended; how many of each graph ended for the first time
with ended as materialized (
    select * from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::timestamptz[], $5::timestamptz[])
        as x(job_id, run_id, state, started_at, finished_at)
),
first as (
    update duetime.nodes n
    set state = x.state, run_id = x.run_id, started_at = x.started_at, finished_at = x.finished_at
    from ended x where n.job_id = x.job_id and n.state is null returning n.graph_id
),
again as (
    update duetime.nodes n
    set state = x.state, run_id = x.run_id, started_at = x.started_at, finished_at = x.finished_at
    from ended x where n.job_id = x.job_id and n.state is not null returning n.graph_id
)
select g.graph_id, sum(g.first)::int as first
from (select graph_id, 1 as first from first union all select graph_id, 0 from again) g
group by g.graph_id order by g.graph_id;

-- count_nodes: count nodes of graphs that ended; returns the graphs that are over
update duetime.graphs g
set unended = g.unended - x.first,
    ended_at = case when g.unended > x.first then null else coalesce(g.ended_at, duetime.clock()) end
from (
    select o.id, x.first from duetime.graphs o join unnest($1::uuid[], $2::int[]) as x(id, first) on x.id = o.id
    order by o.id for update of o
) x
where g.id = x.id
returning g.id, g.unended;

-- end_graphs: say how graphs ended
update duetime.graphs g set status = case
    when exists (select 1 from duetime.nodes n where n.graph_id = g.id and n.state = 5) then 'FAILED'
    when exists (select 1 from duetime.nodes n where n.graph_id = g.id and n.state <> 4) then 'CANCELLED'
    else 'SUCCEEDED' end
where g.id = any($1::uuid[]) and g.unended = 0;

-- find_followers: the jobs that run after these
select parent_id, job_id, wanted from duetime.followers where parent_id = any($1::uuid[]);

-- hold_followers: jobs that run after others, held in the order in which everybody does
select id, tenant_id, task, queue, tier, state, args, options, timeout_ms, followed from duetime.jobs
where id = any($1::uuid[]) and state < 2 order by id for update;

-- count_follows: count the runs that were made of jobs, and those that were not
update duetime.jobs j set made = j.made + x.made, missed = j.missed + x.missed
from unnest($1::uuid[], $2::int[], $3::int[]) as x(id, made, missed) where j.id = any(array[x.id]);

-- make_followers: make runs of jobs that run after others
with made as (
    insert into duetime.runs (id, job_id, tenant_id, lane_id, home_lane, due_at, ready_at, args, options, timeout_ms,
        followed)
    select x.id, x.job_id, x.tenant_id, x.lane, x.lane, x.due_at, greatest(x.due_at, duetime.clock()), x.args, x.options,
        x.timeout_ms, x.followed
    from unnest($1::uuid[], $2::uuid[], $3::int[], $4::int[], $5::timestamptz[], $6::bytea[], $7::bytea[], $8::int[],
                $9::boolean[]) as x(id, job_id, tenant_id, lane, due_at, args, options, timeout_ms, followed)
    on conflict (id) do nothing
    returning id, tenant_id
)
insert into duetime.events (at, kind, tenant_id, ids)
select duetime.now(), 2, m.tenant_id, array_agg(m.id) from made m
where (select l.until > duetime.now() from duetime.listening l where l.one) group by m.tenant_id;

-- follow_jobs: wait for the ends of the runs of jobs in their first home
update duetime.jobs set followed = true where tenant_id = $1 and id = any($2::uuid[]) and state < 2
returning id, recurring;

-- hold_parents: live runs of these jobs, held against completion in the order in which everybody does
select id from duetime.runs where tenant_id = $1 and job_id = any($2::uuid[])
-- by bytes, or the index of ids might be read whole for its order
order by uuid_send(id) for update;

-- follow_runs: wait for the ends of these runs; one that waits is ready anew, above the mark of any claim that passed it
update duetime.runs
set followed = true, ready_at = case when worker_id is null then greatest(ready_at, duetime.clock()) else ready_at end
where tenant_id = $1 and id = any($2::uuid[])
returning job_id;

-- ends_of_jobs: how the newest runs of jobs ended that are over
select job_id, end_state from duetime.last_ends($1, $2::uuid[]);

-- which_deleted: which of these jobs were deleted
select job_id from duetime.deleted_jobs where tenant_id = $1 and job_id = any($2::uuid[]);

-- insert_dependents: store one-off jobs as their runs; those that wait for parents have no lane yet
with job as materialized (
    select j.*, greatest(coalesce(j.at, duetime.now() + coalesce(j.delay, interval '0')), duetime.now()) as due_at
    from unnest($2::uuid[], $3::uuid[], $4::int[], $5::timestamptz[], $6::interval[], $7::bytea[], $8::bytea[],
                $9::int[], $10::boolean[], $11::boolean[])
        as j(id, run_id, lane_id, at, delay, args, options, timeout_ms, blocked, followed)
),
stored as (
    insert into duetime.runs (id, job_id, tenant_id, lane_id, home_lane, waits, due_at, ready_at, args, options,
        timeout_ms, followed, manual)
    select run_id, id, $1, case when blocked then null else lane_id end, lane_id, case when blocked then 2 else 0 end,
        due_at, greatest(due_at, duetime.clock()), args, options, timeout_ms, followed, $12
    from job
),
told as (
    insert into duetime.events (at, kind, tenant_id, ids)
    select duetime.now(), case when $12 then 2 else 1 end, $1,
        case when $12 then $3::uuid[] else $2::uuid[] end
    from duetime.listening l where l.one and l.until > duetime.now()
)
select id, due_at from job;

-- put_dependents: remember by which rule jobs wait, and how their parents stand
insert into duetime.dependents (job_id, tenant_id, run_id, need, wanted, otherwise, unended, met, unmet, settled)
select x.job_id, $1, x.run_id, x.need, x.wanted, x.otherwise, x.unended, x.met, x.unmet, x.settled
from unnest($2::uuid[], $3::uuid[], $4::smallint[], $5::smallint[], $6::smallint[], $7::int[], $8::int[], $9::int[],
            $10::boolean[]) as x(job_id, run_id, need, wanted, otherwise, unended, met, unmet, settled)
on conflict (job_id) do update set run_id = excluded.run_id, need = excluded.need, wanted = excluded.wanted,
    otherwise = excluded.otherwise, unended = excluded.unended, met = excluded.met, unmet = excluded.unmet,
    settled = excluded.settled;

-- put_edges: remember what depends on what
insert into duetime.edges (parent_id, child_id, tenant_id, state)
select x.parent_id, x.child_id, $1, x.state
from unnest($2::uuid[], $3::uuid[], $4::smallint[]) as x(parent_id, child_id, state)
on conflict (parent_id, child_id) do update set state = excluded.state;

-- is_waited_for: whether a run waits for the end of a job
select true from duetime.edges e
join duetime.dependents d on d.job_id = e.child_id and not d.settled
join duetime.runs r on r.id = any(array[d.run_id]) and r.lane_id is null and r.waits = 2
where e.tenant_id = $1 and e.parent_id = $2 and e.state is null limit 1;

-- drop_edges: forget what jobs depended on
with rules as (delete from duetime.dependents where tenant_id = $1 and job_id = any($2::uuid[]))
delete from duetime.edges where tenant_id = $1 and child_id = any($2::uuid[]);

-- refollow_runs: runs of jobs that were replaced are waited for like those before
update duetime.runs r set followed = true
where r.tenant_id = $1 and r.job_id = any($2::uuid[]) and (
    exists (select 1 from duetime.edges e where e.parent_id = r.job_id)
    or exists (select 1 from duetime.followers f where f.parent_id = r.job_id));

-- refollow_jobs: jobs that were replaced are waited for like those before
update duetime.jobs j set followed = true
where j.tenant_id = $1 and j.id = any($2::uuid[]) and (
    exists (select 1 from duetime.edges e where e.parent_id = j.id)
    or exists (select 1 from duetime.followers f where f.parent_id = j.id));

-- insert_follower: store a job that runs after another
with job as (
    insert into duetime.jobs (id, tenant_id, task, queue, tier, schedule, recurring, args, options, timeout_ms, version,
                              created_at)
    values ($1, $2, $3, $4, $5, $6, true, $7, $8, $9, $10, duetime.now())
),
told as (
    insert into duetime.events (at, kind, tenant_id, ids)
    select duetime.now(), 1, $2::int, array[$1::uuid] from duetime.listening l where l.one and l.until > duetime.now()
)
insert into duetime.followers (parent_id, job_id, tenant_id, wanted) values ($11, $1, $2, $12);

-- insert_graph: store a graph
insert into duetime.graphs (id, tenant_id, name, nodes, unended, created_at)
values ($2, $1, $3, $4, $4, duetime.now());

-- insert_nodes: store the nodes of a graph
insert into duetime.nodes (job_id, graph_id, place, tenant_id, name, task, run_id)
select x.job_id, $2, x.place, $1, x.name, x.task, x.run_id
from unnest($3::uuid[], $4::int[], $5::text[], $6::text[], $7::uuid[]) as x(job_id, place, name, task, run_id);

-- find_graph: a graph
select id, tenant_id, name, status, nodes, created_at, ended_at from duetime.graphs where tenant_id = $1 and id = $2;

-- hold_graph: a graph, held against others who run it again
select unended from duetime.graphs where tenant_id = $1 and id = $2 for update;

-- list_graphs: graphs, newest first
select id, tenant_id, name, status, nodes, created_at, ended_at from duetime.graphs
where tenant_id = any (array[$1::int]) and id < $2 order by tenant_id desc, id desc limit $3;

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
where n.graph_id = $2 and n.tenant_id = $1 order by n.place;

-- edges_of_graph: what depends on what in a graph, by place. Each edge is looked up: before a new graph has been analyzed, a
-- planner that may join believes in a few rows, and compares all with all
select p.place, c.place from duetime.nodes c
cross join lateral (select e.parent_id from duetime.edges e where e.child_id = c.job_id offset 0) e
cross join lateral (
    select p.place from duetime.nodes p where p.job_id = e.parent_id and p.graph_id = c.graph_id limit 1) p
where c.graph_id = $2 and c.tenant_id = $1 order by c.place, p.place;

-- live_runs_of_graph: the runs of a graph that are not over, in the order in which everybody holds them
select r.id from duetime.nodes n cross join lateral (
    select o.id from duetime.runs o where o.tenant_id = n.tenant_id and o.job_id = n.job_id offset 0) r
where n.graph_id = $2 and n.tenant_id = $1 order by r.id;

-- ends_of_runs: the rows that ended runs, as history has them
select h.run_id, h.job_id, h.lane_id, h.args, h.options, h.timeout_ms
from unnest($2::uuid[]) as w(id) cross join lateral (
    select h.* from duetime.history h where h.tenant_id = $1 and h.run_id = w.id and h.end_state is not null
    order by h.fence desc limit 1
) h;

-- open_edges: let parents that run again be counted again
update duetime.edges set state = null
where tenant_id = $1 and parent_id = any($2::uuid[]) and child_id = any($2::uuid[]);

-- open_nodes: let nodes that run again be ended again
update duetime.nodes n set state = null, run_id = x.run_id, started_at = null, finished_at = null
from unnest($2::uuid[], $3::uuid[]) as x(job_id, run_id) where n.tenant_id = $1 and n.job_id = x.job_id;

-- open_graph: a graph runs again
update duetime.graphs set unended = $3, ended_at = null, status = 'RUNNING' where tenant_id = $1 and id = $2;

-- parents_of_job: the parents of a job by id, and how their newest runs ended
select e.parent_id as job_id, h.run_id, n.name, h.end_state, h.result, left(h.error, 500) as error
from (
    select * from duetime.edges e where e.tenant_id = $1 and e.child_id = $2 and e.parent_id > $3
    order by e.child_id, e.parent_id limit $4
) e
left join duetime.nodes c on c.job_id = e.child_id
left join duetime.nodes n on n.job_id = e.parent_id and n.graph_id = c.graph_id
left join lateral (
    select h.* from duetime.history h
    where h.tenant_id = $1 and h.job_id between e.parent_id and e.parent_id and h.end_state is not null
        and not exists (select 1 from duetime.runs r where r.tenant_id = $1 and r.job_id = e.parent_id)
    order by h.job_id desc, h.run_id desc limit 1
) h on true
order by e.parent_id;

-- followed_run: the run whose end made another
select h.job_id, h.run_id, null::text as name, h.end_state, h.result, left(h.error, 500) as error
from duetime.history h where h.tenant_id = $1 and h.run_id = $2 and h.end_state is not null
order by h.fence desc limit 1;

-- what_is_run: what a run belongs to, in either home
select job_id, options from duetime.runs where tenant_id = $1 and id = $2
union all
(select job_id, options from duetime.history where tenant_id = $1 and run_id = $2 and end_state is not null limit 1);

-- what_is_held: what a run belongs to that a worker holds
select tenant_id, job_id, options from duetime.runs where worker_id = $1 and id = $2;

-- prune_graphs: remove graphs that ended long ago, with their nodes
with gone as (
    delete from duetime.graphs where id in (
        select id from duetime.graphs where ended_at < $1::timestamptz order by ended_at limit $2
        for update skip locked)
    returning id
)
delete from duetime.nodes n using gone where n.graph_id = gone.id;

-- sweep_edges: forget what jobs depended on that are nowhere any more; how many were looked at, and the last of them
with part as materialized (
    select tenant_id, job_id from duetime.dependents where job_id > $1 and job_id < $2 order by job_id limit $3
),
over as materialized (
    select p.job_id from part p
    where (select 1 from duetime.runs r where r.tenant_id = p.tenant_id and r.job_id = p.job_id limit 1) is null
        and not exists (select 1 from duetime.nodes n where n.job_id = p.job_id)
        and not exists (select 1 from duetime.history h where h.tenant_id = p.tenant_id and h.job_id = p.job_id
            and h.end_state is not null)
),
edges_of as (delete from duetime.edges e using over o where e.child_id = o.job_id),
gone as (delete from duetime.dependents d using over o where d.job_id = o.job_id returning 1)
select (select count(*) from part), (select job_id from part order by job_id desc limit 1),
    (select count(*) from gone);

-- prune_followers: forget who ran after others and is gone
delete from duetime.followers f where (select 1 from duetime.jobs j where j.id = f.job_id limit 1) is null;
