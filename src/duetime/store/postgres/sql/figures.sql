-- The newest end of history is read across tenants, which bounds the effort, as the service's own role; the statement
-- then keeps what belongs to its tenant. Everything else reads the rows of one tenant alone.

-- template tail
tail as materialized (
    select 0 as day, h.run_id, h.job_id, h.tenant_id, h.lane_id, h.attempt, h.lost, h.attempt_state, h.end_state, h.due_at, h.started_at,
        h.first_started_at, h.finished_at
    from duetime.history h
    where h.finished_at >= :today and h.finished_at < :tomorrow and h.ctid >= ('(' || :first_block::bigint || ',0)')::tid
    union all
    select 1, h.run_id, h.job_id, h.tenant_id, h.lane_id, h.attempt, h.lost, h.attempt_state, h.end_state, h.due_at, h.started_at,
        h.first_started_at, h.finished_at
    from duetime.history h
    where h.finished_at >= :day and h.finished_at < :midnight and h.ctid >= ('(' || :first_block_of_day::bigint || ',0)')::tid
)
-- end

-- blocks_of_day: how long the partitions of these names are, in blocks
select coalesce(pg_relation_size(to_regclass(n.name)), 0) / current_setting('block_size')::int as blocks
from unnest(:names::text[]) with ordinality as n(name, place) order by n.place;

-- recent_attempts: attempts that ended lately, from the newest blocks of up to two days; as (kind, number, states, text, value)
with {tail},
mine as materialized (
    select * from tail where tenant_id = :tenant_id and finished_at >= :since
),
lags as materialized (
    select extract(epoch from m.started_at - m.due_at)::float8 as lag from mine m
    where m.first_started_at is null and m.started_at is not null
),
by_lane as materialized (
    select m.lane_id, count(*) filter (where m.attempt_state in (AttemptState.FAILED, AttemptState.LOST)) as failed,
        count(*) as attempts
    from mine m group by m.lane_id
),
tasks as (
    select n.task, sum(l.failed)::bigint as failed, sum(l.attempts)::bigint as attempts
    from by_lane l join duetime.lanes n on n.id = l.lane_id group by n.task
)
select 'step' as kind, floor(extract(epoch from m.finished_at - :since) / :step::float8)::int as number, m.attempt_state,
    m.end_state, null as name, count(*)::float8 as value
from mine m group by 2, 3, 4
union all
select 'lag', p.share, null, null, null, percentile_disc(p.share / 100.0) within group (order by l.lag)
from lags l cross join (values (50), (95), (100)) as p(share) group by p.share
union all
(select 'failing', t.attempts::int, null, null, t.task, t.failed from tasks t where t.failed > 0
    order by t.failed desc, t.task limit 5)
union all
select 'seen', t.day, null, null, null, extract(epoch from min(t.finished_at) - :since)::float8 from tail t group by t.day;

-- activity: what ended lately by tenant and queue, from the same blocks; since the begin of the covered period. The id of
-- a run that was due when it was submitted begins with the time of its job's id: no schedule foretold it
with {tail},
edge as materialized (select greatest(:since, (select min(t.finished_at) from tail t where t.day = :cut)) as since),
by_lane as materialized (
    select t.lane_id, e.since, count(*) filter (where t.end_state is not null) as ends,
        count(*) filter (where t.end_state is not null and t.due_at >= e.since) as arrived,
        count(*) filter (where t.end_state is not null and t.due_at >= e.since
            and left(t.run_id::text, 13) = left(t.job_id::text, 13)) as unplanned,
        count(t.started_at) as tried, coalesce(sum(extract(epoch from t.finished_at - t.started_at)), 0)::float8 as busy
    from edge e join tail t on t.finished_at >= e.since group by t.lane_id, e.since
)
select n.tenant_id, n.queue, l.since, sum(l.ends)::bigint as ends, sum(l.arrived)::bigint as arrived,
    sum(l.unplanned)::bigint as unplanned, sum(l.tried)::bigint as tried, sum(l.busy) as busy
from by_lane l join duetime.lanes n on n.id = l.lane_id group by 1, 2, 3;

-- template sizes(kind)
select i.tenant_id, i.stretch, '{kind}', greatest(length(i.{kind}) - 2, 0) * 100 + substr(i.{kind}, 1, 2)::int, count(*)::int, null
from inside i where i.{kind} is not null group by 1, 2, 4
-- end

-- pace: attempts that ended in each minute of a time, from the same blocks: by tenant and outcome, and by the size classes
-- of lags and durations (model/trends.py); and since when rows were seen, by day
with {tail},
inside as materialized (
    select t.tenant_id, floor(extract(epoch from t.finished_at - :since) / 60)::int as stretch, t.attempt_state, t.end_state,
        case when t.first_started_at is null and t.started_at is not null
            then (greatest(0, floor(extract(epoch from t.started_at - t.due_at) * 10000)))::bigint::text end as lags,
        case when t.started_at is not null
            then (greatest(0, floor(extract(epoch from t.finished_at - t.started_at) * 10000)))::bigint::text end as took
    from tail t where t.finished_at >= :since and t.finished_at < :until
)
select i.tenant_id, i.stretch, 'state' as kind, i.attempt_state * 100 + coalesce(i.end_state, 99) as number,
    count(*)::int as count, null::timestamptz as at
from inside i group by 1, 2, 4
union all
{sizes: lags}
union all
{sizes: took}
union all
select 0, 0, 'seen', t.day, 0, min(t.finished_at) from tail t group by t.day;

-- running_by_queue: what runs in slots of workers, by tenant and queue, up to a bound
select tenant_id, queue, running, arrived, unplanned from duetime.running_by_queue(:since, :most);

-- cursors_ahead: the jobs that fire within a time, of crowded minutes a random sample
select job_id, crowded, crowd, seen, horizon from duetime.cursors_ahead(:since, :until, :most, :few, :sampled);

-- queue_ahead: the runs of a queue that wait (stretch -1), and those that become ready in each interval from now on
select w.stretch, w.lane_id, count(*) as runs, count(*) filter (where w.due_at >= :since and w.stretch < 0) as arrived,
    count(*) filter (where w.due_at >= :since and w.stretch < 0 and left(w.id::text, 13) = left(w.job_id::text, 13))
        as unplanned,
    min(w.ready_at) as ready_at
from (
    select n.id as lane_id, r.id, r.job_id, r.ready_at, r.due_at, case when r.ready_at <= duetime.now() then -1
        else floor(extract(epoch from r.ready_at - duetime.now()) / :step::float8)::int end as stretch
    from duetime.lanes n cross join lateral (
        select r.id, r.job_id, r.ready_at, r.due_at from duetime.runs r
        where r.lane_id = n.id and r.worker_id is null and r.ready_at < :until order by r.ready_at limit :most) r
    where n.tenant_id = :tenant_id and n.queue = :queue and n.awake limit :most) w
group by 1, 2;

-- lane_depths: how many due runs wait in each of these lanes, up to a cap
select l.id as lane_id, w.runs, w.arrived, w.ready_at from unnest(:lane_ids::int[]) as l(id) cross join lateral (
    select count(*) as runs, count(*) filter (where r.due_at >= :since) as arrived, min(r.ready_at) as ready_at
    from (
        select r.ready_at, r.due_at from duetime.runs r
        where r.lane_id = l.id and r.worker_id is null and r.ready_at <= duetime.now()
        order by r.ready_at limit :cap) r) w
where w.runs > 0;

-- standing: how many jobs, running runs and dead letters a tenant has, up to a cap
select (select count(*) from (select 1 from duetime.jobs where tenant_id = :tenant_id limit :cap + 1) j) as jobs,
    (select count(*) from (select 1 from duetime.running_runs() limit :cap + 1) r) as running,
    (select count(*) from (select 1 from duetime.dead_letters where tenant_id = :tenant_id limit :cap + 1) d) as dead_letters;

-- estimate_jobs: the planner's estimate of a tenant's jobs
explain (format json) select from duetime.jobs where tenant_id = :tenant_id;

-- waiting_lanes: since when the first run of each lane is ready and has not started
select n.task, n.queue, r.ready_at from duetime.lanes n cross join lateral (
    select r.ready_at from duetime.runs r where r.lane_id = n.id and r.worker_id is null
    order by r.ready_at limit 1) r
where n.tenant_id = :tenant_id and n.awake and r.ready_at <= duetime.now() order by r.ready_at;

-- runs_ahead: how many existing runs of a tenant are due later, by interval and queue
select m.queue, div((extract(epoch from m.due_at - :start::timestamptz) * 1000000)::numeric,
    (extract(epoch from :step::interval) * 1000000)::numeric)::int as stretch, count(*) as runs
from (
    select n.queue, r.due_at from duetime.lanes n cross join lateral (
        select r.due_at from duetime.runs r where r.lane_id = n.id and r.worker_id is null and r.ready_at >= :since
            and r.ready_at < :until and r.due_at >= :since and r.due_at < :until
        order by r.ready_at limit :most) r
    where n.tenant_id = :tenant_id and n.awake limit :most) m
group by 1, 2;

-- jobs_of_runs_ahead: jobs with such runs, and how many, newest first between two ids
select r.job_id, n.queue, count(*) as runs from duetime.lanes n cross join lateral (
    select r.job_id from duetime.runs r where r.lane_id = n.id and r.worker_id is null and r.ready_at >= :since
        and r.ready_at < :until and r.due_at >= :since and r.due_at < :until and r.job_id < :before and r.job_id >= :floor
    order by r.ready_at) r
where n.tenant_id = :tenant_id and n.awake group by 1, 2 order by r.job_id desc limit :most;

-- job_ids: the newest jobs of a tenant below an id
select id from duetime.jobs_below(:tenant_id, :before, :most) as j(id);

-- sample_jobs: how many jobs a tenant has, up to a cap, and some of them by the last bytes of their ids, which are drawn
-- by lot
select count(*) as there, array_agg(j.id) filter (where substring(uuid_send(j.id) from 15) < :bound::bytea) as ids
from (select j.id from duetime.jobs j where j.tenant_id = any (array[:tenant_id::int]) limit :most) j;

-- coming_jobs: what the fires of these jobs depend on, of those that have a cursor; without a tenant, of all tenants
select j.id as job_id, j.tenant_id, j.queue, j.recurring, j.schedule, j.options, c.next_fire_at, c.scan_at, c.made,
    c.owed
from duetime.jobs_by_id(:ids::uuid[]) j cross join lateral (
    select c.next_fire_at, c.scan_at, c.made, c.owed from duetime.cursors c where c.job_id = j.id limit 1) c
where j.tenant_id = coalesce(:tenant_id, j.tenant_id) and j.state = JobState.ACTIVE;

-- recent_runs: the last ends of each of these jobs, newest first
select h.job_id, h.run_id, h.end_state, h.due_at, h.started_at, h.finished_at
from unnest(:ids::uuid[]) as w(id)
cross join lateral duetime.history_by_run(:tenant_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff', w.id, null, :most) h
order by h.job_id, h.run_id desc;
