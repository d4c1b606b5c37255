-- template found
found as (
    select l.run_id as id, l.job_id, :tenant_id::int as tenant_id, n.task, n.queue, n.tier, l.attempt, l.lost, l.end_state,
        l.failure, l.error, l.due_at, l.ready_at, l.started_at, l.first_started_at, l.finished_at, l.worker_id,
        l.options
    from looked l cross join lateral (select * from duetime.lanes n where n.id = l.lane_id limit 1) n
    where l.end_state is not null and (:state::smallint is null or l.end_state = :state)
        and (:task::text is null or n.task = :task) and (:queue::text is null or n.queue = :queue)
        and (:due_from::timestamptz is null or l.due_at >= :due_from) and (:due_until::timestamptz is null or l.due_at < :due_until)
    order by l.run_id desc limit :limit
)
-- end

-- How these are written: what is looked up for each row is a subquery with a limit, which cannot be turned into a hash
-- of a whole table; a job in history is one `between` itself and itself, so that sorting by it keeps to the index that
-- begins with tenant and job. Either way the plan is the same whatever is believed of the tables.

-- list_labelled: jobs with a label, newest first; `among` is false if another wanted label is missing
select l.job_id, (
    select coalesce(bool_and((
        select true from duetime.labels o where o.tenant_id = :tenant_id and o.kind = w.kind::"char" and o.value = w.value
            and o.job_id = l.job_id limit 1) is not null), true)
    from unnest(:kinds::text[], :values::text[]) as w(kind, value)) as among
from duetime.labelled_below(:tenant_id, :kind::text::"char", :value, :before, :bound) as l(job_id) order by l.job_id desc;

-- list_by_name: the names of jobs in their order, from a place on or down from it
select n.value, n.job_id
from duetime.names_from(:tenant_id, :value::text, :job_id::uuid, :down, :bound) with ordinality as n(value, job_id, place)
order by n.place;

-- list_stored_jobs: jobs in the table `jobs`, newest first or by id; and the bounds of what was read
with wanted as materialized (
    select id from unnest(:ids::uuid[]) as w(id)
    union all
    select id from duetime.jobs_below(:tenant_id, :before, :bound) as w(id) where :ids::uuid[] is null
),
looked as materialized (
    select j.id, j.tenant_id, j.task, j.queue, j.tier, j.state, j.recurring, j.schedule, j.options, j.version,
        j.created_at, j.problem
    from duetime.jobs_by_id(array(select w.id from wanted w)) j where j.tenant_id = :tenant_id
),
found as (
    select l.* from looked l
    where (:states::int[] is null or l.state = any(:states)) and (:recurring::boolean is null or l.recurring = :recurring)
        and (:tasks::text[] is null or l.task = any(:tasks)) and (:queue::text is null or l.queue = :queue)
        and ((:due_from::timestamptz is null and :due_until::timestamptz is null) or (
            select true from duetime.cursors c where c.job_id = l.id
                and (:due_from::timestamptz is null or c.next_fire_at >= :due_from)
                and (:due_until::timestamptz is null or c.next_fire_at < :due_until) limit 1))
        and (select true from duetime.deleted_jobs d where d.job_id = l.id limit 1) is null
    order by l.id desc limit :limit
)
select b.seen, b.lowest, f.*, n.next_fire_at, (
    select min(r.due_at) from duetime.runs r
    where r.tenant_id = :tenant_id and r.job_id = f.id and r.worker_id is null) as waiting
from (select count(*) as seen, (select id from looked order by id limit 1) as lowest from looked) b
left join found f on true
left join duetime.next_fires(array(select found.id from found)) n on n.job_id = f.id;

-- list_live_jobs: one-off jobs with a live run, newest first, or by id, or only running ones
with looked as materialized (
    select * from duetime.live_jobs_below(:tenant_id, :before, :floor, :bound)
    where :ids::uuid[] is null and not :running
    union all
    select r.id, r.job_id, r.home_lane, r.lane_id, r.worker_id, r.attempt, r.lost, r.due_at, r.ready_at, r.options
    from unnest(:ids::uuid[]) as w(id)
    cross join lateral (select * from duetime.runs r where r.tenant_id = :tenant_id and r.job_id = w.id offset 0) r
    union all
    select r.id, r.job_id, r.home_lane, r.lane_id, r.worker_id, r.attempt, r.lost, r.due_at, r.ready_at, r.options
    from duetime.running_runs() as w(id) cross join lateral (select * from duetime.runs r where r.id = w.id limit 1) r
    where :ids::uuid[] is null and :running and r.tenant_id = :tenant_id and r.job_id < :before
),
found as (
    select distinct on (l.job_id) l.id, l.job_id, n.task, n.queue, n.tier, l.lane_id,
        l.worker_id, l.attempt, l.lost, l.due_at, l.ready_at, l.options
    from looked l cross join lateral (select * from duetime.lanes n where n.id = l.home_lane limit 1) n
    where (:state::int is null or :state = case
            when l.worker_id is not null then RunState.RUNNING when l.lane_id is null then RunState.BLOCKED
            when l.attempt > 0 or l.lost > 0 then RunState.RETRYING else RunState.PENDING end)
        and (:tasks::text[] is null or n.task = any(:tasks)) and (:queue::text is null or n.queue = :queue)
        and (:due_from::timestamptz is null or l.due_at >= :due_from) and (:due_until::timestamptz is null or l.due_at < :due_until)
        and (select true from duetime.jobs j where j.id = l.job_id limit 1) is null
        and (select true from duetime.deleted_jobs d where d.job_id = l.job_id limit 1) is null
    order by l.job_id desc, l.id desc limit :limit
)
select b.seen, b.lowest, b.highest, f.*
from (
    select count(*) as seen, (select job_id from looked order by job_id limit 1) as lowest,
        (select job_id from looked order by job_id desc limit 1) as highest
    from looked) b
left join found f on true;

-- walk_ended_jobs: one-off jobs among those whose runs ended, newest first, with the last run of each where all ends were
-- looked at; and the bounds of that. The own run of a one-off has the job's own bits; other runs of it may have ended in
-- a rare state alone.
with looked as materialized (
    select e.job_id, e.run_id, substring(uuid_send(e.run_id) from 9) = substring(uuid_send(e.job_id) from 9) as own
    from duetime.ends_by_job(:tenant_id, :before, :floor, :state::smallint, :bound) e
),
found as materialized (
    select l.job_id,
        case when coalesce(:state::smallint, RunState.SUCCEEDED) = RunState.SUCCEEDED then (array_agg(l.run_id))[1] end as run_id
    from (select * from looked order by job_id desc, run_id desc) l group by l.job_id
    having bool_or(l.own) or (
        :state::smallint <> RunState.SUCCEEDED and (select true from duetime.jobs j where j.id = l.job_id limit 1) is null)
    order by l.job_id desc
)
select (select count(*) from looked) as seen, (select job_id from looked order by job_id limit 1) as lowest,
    (select job_id from looked order by job_id desc limit 1) as highest,
    array(select f.job_id from found f) as ids, array(select f.run_id from found f) as run_ids;

-- find_ended_jobs: of each of some jobs, whose last runs are known or not, the end of its last run, and whether it lives
-- elsewhere or was deleted
with soon as materialized (
    select * from duetime.soon_ended(:tenant_id, :ids::uuid[], :run_ids::uuid[])
),
ends as (
    select * from soon
    union all
    select * from duetime.last_ends(:tenant_id, array(select unnest(:ids::uuid[]) except select s.job_id from soon s))
)
select h.job_id, h.run_id, h.end_state, h.due_at, h.options, n.task, n.queue, n.tier,
    coalesce(
        (select true from duetime.jobs j where j.id = h.job_id limit 1),
        (select true from duetime.runs r where r.tenant_id = :tenant_id and r.job_id = h.job_id limit 1),
        (select true from duetime.deleted_jobs d where d.job_id = h.job_id limit 1), false) as elsewhere
from ends h
cross join lateral (select * from duetime.lanes n where n.id = h.lane_id limit 1) n
order by h.job_id desc;

-- list_live_runs: live runs of a tenant: of some jobs, or those that run, or all if they are few, or among the runs of all tenants
with newest as materialized (
    select * from duetime.live_runs_below(:before, :bound) where :everybodys
),
wanted as materialized (
    select w.id from newest n cross join lateral unnest(n.ids) as w(id)
    union all
    select w.id from duetime.running_runs() as w(id) where :job_ids::uuid[] is null and :running and w.id < :before
    union all
    select w.id from duetime.live_jobs_below(:tenant_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff',
        '00000000-0000-0000-0000-000000000000', :bound) as w where :job_ids::uuid[] is null and not :running and not :everybodys
    union all
    select w.id from unnest(:job_ids::uuid[]) as j(id)
    cross join lateral (select r.id from duetime.runs r where r.tenant_id = :tenant_id and r.job_id = j.id and r.id < :before offset 0) w
),
looked as materialized (
    select r.id, r.job_id, r.tenant_id, r.home_lane, r.lane_id, r.worker_id, r.attempt, r.lost, r.due_at, r.ready_at,
        r.started_at, r.first_started_at, r.options
    from wanted w cross join lateral (
        select * from duetime.runs r where r.id = w.id and r.tenant_id is not distinct from :tenant_id limit 1) r
),
found as (
    select l.id, l.job_id, l.tenant_id, n.task, n.queue, n.tier, l.lane_id, l.worker_id, l.attempt, l.lost, l.due_at,
        l.ready_at, l.started_at, l.first_started_at, l.options
    from looked l cross join lateral (select * from duetime.lanes n where n.id = l.home_lane limit 1) n
    where l.id < :before
        and (:state::int is null or :state = case
            when l.worker_id is not null then RunState.RUNNING when l.lane_id is null then RunState.BLOCKED
            when l.attempt > 0 or l.lost > 0 then RunState.RETRYING else RunState.PENDING end)
        and (:task::text is null or n.task = :task) and (:queue::text is null or n.queue = :queue)
        and (:due_from::timestamptz is null or l.due_at >= :due_from) and (:due_until::timestamptz is null or l.due_at < :due_until)
    order by l.id desc limit :limit
)
select b.seen, b.lowest, f.*
from (
    select coalesce((select seen from newest), (select count(*) from wanted)) as seen,
        coalesce((select lowest from newest), (select id from wanted order by id limit 1)) as lowest) b
left join found f on true;

-- list_ended_runs: ended runs, newest first: of a job, or that ended in one state, or all
with looked as materialized (
    select * from duetime.history_by_run(:tenant_id, :before, :job_id, :state::smallint, :bound)
),
{found}
select b.seen, b.lowest, b.highest, f.*
from (
    select count(*) as seen, (select run_id from looked order by run_id limit 1) as lowest,
        (select run_id from looked order by run_id desc limit 1) as highest
    from looked) b
left join found f on true;

-- list_ended_runs_of: ended runs of some jobs, newest first, up to a bound for each job; `lowest` is the id from which on
-- all of them were read, if not all were
with looked as materialized (
    select h.* from unnest(:job_ids::uuid[]) as w(id)
    cross join lateral duetime.history_by_run(:tenant_id, :before, w.id, null, :bound) h
),
cut as (
    select (array_agg(l.run_id order by l.run_id))[1] as lowest from looked l group by l.job_id having count(*) >= :bound
),
{found}
select b.lowest, f.* from (select (select c.lowest from cut c order by c.lowest desc limit 1) as lowest) b left join found f on true;

-- list_dead_letters: dead letters, newest first, and the bounds of what was read
with looked as materialized (
    select d.run_id, d.job_id, d.tenant_id, d.lane_id, d.attempt, d.lost, d.failure, d.error, d.due_at, d.died_at,
        d.options, d.fingerprint
    from duetime.dead_letters_below(:tenant_id, :before, :bound) as w(run_id)
    cross join lateral (select * from duetime.dead_letters d where d.run_id = w.run_id limit 1) d
    where :job_ids::uuid[] is null and d.tenant_id = :tenant_id
    union all
    select d.run_id, d.job_id, d.tenant_id, d.lane_id, d.attempt, d.lost, d.failure, d.error, d.due_at, d.died_at,
        d.options, d.fingerprint
    from unnest(:job_ids::uuid[]) as w(id) cross join lateral (
        select * from duetime.dead_letters d where d.tenant_id = :tenant_id and d.run_id < :before and d.job_id = w.id
        offset 0) d
),
found as (
    select l.run_id, l.job_id, l.tenant_id, n.task, n.queue, n.tier, l.attempt, l.lost, l.failure,
        left(l.error, 500) as error, l.due_at, l.died_at, l.options, l.fingerprint
    from looked l cross join lateral (select * from duetime.lanes n where n.id = l.lane_id limit 1) n
    where (:run_id::uuid is null or l.run_id = :run_id) and (:task::text is null or n.task = :task)
        and (:queue::text is null or n.queue = :queue) and (:failure::smallint is null or l.failure = :failure)
        and (:died_from::timestamptz is null or l.died_at >= :died_from) and (:died_until::timestamptz is null or l.died_at < :died_until)
        and (:error::text is null or strpos(l.error, :error) > 0) and (:fingerprint::text is null or l.fingerprint = :fingerprint)
    order by l.run_id desc limit :limit
)
select b.seen, b.lowest, f.*
from (select count(*) as seen, (select run_id from looked order by run_id limit 1) as lowest from looked) b
left join found f on true;

-- group_dead_letters: dead letters grouped by error, the largest groups first, and how many were read
with looked as materialized (
    select d.run_id, d.lane_id, coalesce(d.fingerprint, '') as fingerprint, d.died_at
    from duetime.dead_letters d where d.tenant_id = any (array[:tenant_id::int])
    order by d.tenant_id desc, d.run_id desc limit :most
),
by_lane as (
    select l.fingerprint, l.lane_id, count(*) as size, min(l.died_at) as first_died_at, max(l.died_at) as died_at,
        (array_agg(l.run_id order by l.run_id desc))[1] as run_id
    from looked l group by l.fingerprint, l.lane_id
),
grouped as (
    select l.fingerprint, sum(l.size)::bigint as size, min(l.first_died_at) as first_died_at, max(l.died_at) as died_at,
        (array_agg(l.run_id order by l.run_id desc))[1] as run_id, array_agg(distinct n.task) as tasks
    from by_lane l join duetime.lanes n on n.id = l.lane_id
    group by l.fingerprint order by sum(l.size) desc, l.fingerprint limit :limit
)
select g.fingerprint, g.size, g.first_died_at, g.died_at, g.run_id, g.tasks, d.failure, left(d.error, 500) as error,
    (select count(*) from looked) as counted
from grouped g join duetime.dead_letters d on d.run_id = g.run_id order by g.size desc, g.fingerprint;

-- job_facts: what decides whether jobs are in a scope
select w.id as job_id, (
        select l.value from duetime.labels l where l.job_id = w.id and l.tenant_id = :tenant_id and l.kind = 'o' limit 1) as owner,
    array(select l.value from duetime.labels l where l.job_id = w.id and l.tenant_id = :tenant_id and l.kind = 't') as tags,
    coalesce(
        (select j.queue from duetime.jobs j where j.id = w.id and j.tenant_id = :tenant_id limit 1),
        (select (select n.queue from duetime.lanes n where n.id = r.home_lane limit 1) from duetime.runs r
            where r.tenant_id = :tenant_id and r.job_id = w.id limit 1),
        (select (select n.queue from duetime.lanes n where n.id = h.lane_id limit 1)
            from duetime.last_ends(:tenant_id, array[w.id]) h)) as queue
from unnest(:ids::uuid[]) as w(id);

-- jobs_of_runs: the jobs of runs in any home
select r.id as run_id, r.job_id from duetime.runs r
where r.id = any(:ids::uuid[]) and r.tenant_id is not distinct from :tenant_id
union
select h.run_id, h.job_id from unnest(:ids::uuid[]) as w(id) cross join lateral (
    select h.run_id, h.job_id from duetime.history h where h.tenant_id = :tenant_id and h.run_id = w.id
    order by h.tenant_id, h.run_id, h.fence limit 1) h
union
select d.run_id, d.job_id from duetime.dead_letters d where d.run_id = any(:ids::uuid[]) and d.tenant_id = :tenant_id;
