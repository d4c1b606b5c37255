-- list_labelled: jobs that have a label, newest first; `among` is false where another wanted label is missing
select l.job_id, not exists (
    select 1 from unnest($5::text[], $6::text[]) as w(kind, value) where not exists (
        select 1 from duetime.labels o where o.tenant_id = $1 and o.kind = w.kind::"char" and o.value = w.value
            and o.job_id = l.job_id)) as among
from duetime.labelled_below($1, $2::text::"char", $3, $4, $7) as l(job_id) order by l.job_id desc;

-- list_stored_jobs: jobs in their first home, newest first or by id; and the bounds of what was looked at
with wanted as materialized (
    select id from unnest($3::uuid[]) as w(id)
    union all
    select id from duetime.jobs_below($1, $2, $4) as w(id) where $3::uuid[] is null
),
looked as materialized (
    select j.id, j.tenant_id, j.task, j.queue, j.tier, j.state, j.recurring, j.schedule, j.options, j.version,
        j.created_at, j.problem
    from wanted w join duetime.jobs j on j.id = w.id and j.tenant_id = $1
),
found as (
    select l.* from looked l
    where ($6::int[] is null or l.state = any($6)) and ($7::boolean is null or l.recurring = $7)
        and ($8::text is null or l.task = $8) and ($9::text is null or l.queue = $9)
        and (($10::timestamptz is null and $11::timestamptz is null) or exists (
            select 1 from duetime.cursors c where c.job_id = l.id
                and ($10::timestamptz is null or c.next_fire_at >= $10)
                and ($11::timestamptz is null or c.next_fire_at < $11)))
        and not exists (select 1 from duetime.deleted_jobs d where d.job_id = l.id)
    order by l.id desc limit $5
)
select b.seen, b.lowest, f.*, (select c.next_fire_at from duetime.cursors c where c.job_id = f.id) as next_fire_at, (
    select min(r.due_at) from duetime.runs r where r.tenant_id = $1 and r.job_id = f.id and r.worker_id is null) as waiting
from (select count(*) as seen, (select id from looked order by id limit 1) as lowest from looked) b
left join found f on true;

-- list_live_jobs: one-off jobs with a live run, newest first, or by id, or those that run
with looked as materialized (
    select * from duetime.live_jobs_below($1, $2, coalesce($7::uuid, '00000000-0000-0000-0000-000000000000'), $4)
    where $3::uuid[] is null and not $12
    union all
    select r.id, r.job_id, r.home_lane, r.lane_id, r.worker_id, r.attempt, r.lost, r.due_at, r.ready_at, r.options
    from unnest($3::uuid[]) as w(id) join duetime.runs r on r.tenant_id = $1 and r.job_id = w.id
    union all
    select r.id, r.job_id, r.home_lane, r.lane_id, r.worker_id, r.attempt, r.lost, r.due_at, r.ready_at, r.options
    from duetime.running_runs() as w(id) join duetime.runs r on r.id = w.id
    where $3::uuid[] is null and $12 and r.tenant_id = $1 and r.job_id < $2
),
found as (
    select distinct on (l.job_id) l.id, l.job_id, n.task, n.queue, n.tier, l.lane_id,
        l.worker_id, l.attempt, l.lost, l.due_at, l.ready_at, l.options
    from looked l join duetime.lanes n on n.id = l.home_lane
    where ($6::int is null or $6 = case when l.worker_id is not null then 2 when l.lane_id is null then 1
                                   when l.attempt > 0 or l.lost > 0 then 3 else 0 end)
        and ($8::text is null or n.task = $8) and ($9::text is null or n.queue = $9)
        and ($10::timestamptz is null or l.due_at >= $10) and ($11::timestamptz is null or l.due_at < $11)
        and not exists (select 1 from duetime.jobs j where j.id = l.job_id)
        and not exists (select 1 from duetime.deleted_jobs d where d.job_id = l.job_id)
    order by l.job_id desc, l.id desc limit $5
)
select b.seen, b.lowest, b.highest, f.*
from (
    select count(*) as seen, (select job_id from looked order by job_id limit 1) as lowest,
        (select job_id from looked order by job_id desc limit 1) as highest
    from looked) b
left join found f on true;

-- walk_ended_jobs: rows of history by job, newest first, and whether their job lives elsewhere or was deleted
select h.job_id, h.run_id, h.end_state, h.due_at, h.options, n.task, n.queue, n.tier,
    exists (select 1 from duetime.jobs j where j.id = h.job_id)
    or exists (select 1 from duetime.runs r where r.tenant_id = $1 and r.job_id = h.job_id)
    or exists (select 1 from duetime.deleted_jobs d where d.job_id = h.job_id) as elsewhere
from duetime.history_by_job($1, $2, $3, $4::smallint, $5) h join duetime.lanes n on n.id = h.lane_id
order by h.job_id desc, h.run_id desc;

-- find_ended_jobs: the same of some jobs
select h.job_id, h.run_id, h.end_state, h.due_at, h.options, n.task, n.queue, n.tier,
    exists (select 1 from duetime.deleted_jobs d where d.job_id = h.job_id) as elsewhere
from unnest($2::uuid[]) as w(id)
cross join lateral (
    select h.job_id, h.run_id, h.end_state, h.due_at, h.options, h.lane_id from duetime.history h
    where h.tenant_id = $1 and h.job_id = w.id and h.end_state is not null order by h.run_id desc limit 1
) h
join duetime.lanes n on n.id = h.lane_id
order by h.job_id desc;

-- tried_again: of these ends of jobs, those that a later run of their job has replaced
select x.job_id from unnest($2::uuid[], $3::uuid[]) as x(job_id, run_id) where exists (
    select 1 from duetime.history h where h.tenant_id = $1 and h.job_id = x.job_id and h.run_id > x.run_id
        and h.end_state is not null);

-- list_live_runs: live runs of a tenant: of a job, or those that run, or all if they are few, or from among everybody's
with looked as materialized (
    (
        select id, job_id, tenant_id, home_lane, lane_id, worker_id, attempt, lost, due_at, ready_at, started_at, options
        from duetime.runs where $3::uuid is null and not $4 and not $11 and tenant_id = $1 and id < $2
        order by tenant_id, job_id limit $5
    )
    union all
    select r.id, r.job_id, r.tenant_id, r.home_lane, r.lane_id, r.worker_id, r.attempt, r.lost, r.due_at,
        r.ready_at, r.started_at, r.options
    from duetime.runs r where $3::uuid is not null and r.tenant_id = $1 and r.job_id = $3 and r.id < $2
    union all
    select r.id, r.job_id, r.tenant_id, r.home_lane, r.lane_id, r.worker_id, r.attempt, r.lost, r.due_at,
        r.ready_at, r.started_at, r.options
    from duetime.running_runs() as w(id) join duetime.runs r on r.id = w.id
    where $3::uuid is null and $4 and r.tenant_id = $1 and r.id < $2
    union all
    (
        select id, job_id, tenant_id, home_lane, lane_id, worker_id, attempt, lost, due_at, ready_at, started_at, options
        from duetime.runs where $11 and id < $2 order by id desc limit $5
    )
),
found as (
    select l.id, l.job_id, l.tenant_id, n.task, n.queue, n.tier, l.lane_id, l.worker_id, l.attempt, l.lost, l.due_at,
        l.ready_at, l.started_at, l.options
    from looked l join duetime.lanes n on n.id = l.home_lane
    where l.tenant_id = $1
        and ($6::int is null or $6 = case when l.worker_id is not null then 2 when l.lane_id is null then 1
                                     when l.attempt > 0 or l.lost > 0 then 3 else 0 end)
        and ($7::text is null or n.task = $7) and ($8::text is null or n.queue = $8)
        and ($9::timestamptz is null or l.due_at >= $9) and ($10::timestamptz is null or l.due_at < $10)
    order by l.id desc limit $12
)
select b.seen, b.lowest, f.*
from (select count(*) as seen, (select id from looked order by id limit 1) as lowest from looked) b
left join found f on true;

-- list_ended_runs: runs that are over, newest first: of a job, or that ended in one state, or all
with looked as materialized (
    select * from duetime.history_by_run($1, $2, $3, $4::smallint, $5)
),
found as (
    select l.run_id as id, l.job_id, $1::int as tenant_id, n.task, n.queue, n.tier, l.attempt, l.lost, l.end_state,
        l.failure, l.error, l.due_at, l.ready_at, l.started_at, l.finished_at, l.worker_id, l.options
    from looked l join duetime.lanes n on n.id = l.lane_id
    where l.end_state is not null and ($4::smallint is null or l.end_state = $4)
        and ($6::text is null or n.task = $6) and ($7::text is null or n.queue = $7)
        and ($8::timestamptz is null or l.due_at >= $8) and ($9::timestamptz is null or l.due_at < $9)
    order by l.run_id desc limit $10
)
select b.seen, b.lowest, b.highest, f.*
from (
    select count(*) as seen, (select run_id from looked order by run_id limit 1) as lowest,
        (select run_id from looked order by run_id desc limit 1) as highest
    from looked) b
left join found f on true;

-- list_dead_letters: dead letters, newest first, and the bounds of what was looked at
with looked as materialized (
    select d.run_id, d.job_id, d.tenant_id, d.lane_id, d.attempt, d.lost, d.failure, d.error, d.due_at, d.died_at,
        d.options
    from duetime.dead_letters_below($1, $2, $5) as w(run_id) join duetime.dead_letters d on d.run_id = w.run_id
    where $3::uuid is null and d.tenant_id = $1
    union all
    select run_id, job_id, tenant_id, lane_id, attempt, lost, failure, error, due_at, died_at, options
    from duetime.dead_letters where tenant_id = $1 and run_id < $2 and job_id = $3
),
found as (
    select l.run_id, l.job_id, l.tenant_id, n.task, n.queue, n.tier, l.attempt, l.lost, l.failure,
        left(l.error, 500) as error, l.due_at, l.died_at, l.options
    from looked l join duetime.lanes n on n.id = l.lane_id
    where ($4::uuid is null or l.run_id = $4) and ($6::text is null or n.task = $6)
        and ($7::text is null or n.queue = $7) and ($8::smallint is null or l.failure = $8)
        and ($9::timestamptz is null or l.died_at >= $9) and ($10::timestamptz is null or l.died_at < $10)
        and ($11::text is null or strpos(l.error, $11) > 0)
    order by l.run_id desc limit $12
)
select b.seen, b.lowest, f.*
from (select count(*) as seen, (select run_id from looked order by run_id limit 1) as lowest from looked) b
left join found f on true;
