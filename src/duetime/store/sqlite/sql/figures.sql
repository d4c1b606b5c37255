-- template tail
tail as materialized (
    select h.run_id, h.job_id, h.tenant_id, h.lane_id, h.attempt, h.lost, h.attempt_state, h.end_state, h.due_at, h.started_at,
        h.first_started_at, h.finished_at
    from history h where h.rowid > (select coalesce(max(rowid), 0) from history) - :most
)
-- end

-- recent_attempts: attempts that ended lately, from the newest rows; as (kind, number, states, text, value)
with {tail},
mine as materialized (
    select * from tail where tenant_id = :tenant_id and finished_at >= :since
),
lags as materialized (
    select m.started_at - m.due_at as lag, row_number() over (order by m.started_at - m.due_at) as place,
        count(*) over () as total
    from mine m where m.first_started_at is null and m.started_at is not null
),
tasks as (
    select n.task, count(*) filter (where m.attempt_state in (AttemptState.FAILED, AttemptState.LOST)) as failed,
        count(*) as attempts
    from mine m join lanes n on n.id = m.lane_id group by n.task
)
select 'step' as kind, (m.finished_at - :since) / :step as number, m.attempt_state, m.end_state, null as name,
    count(*) as value
from mine m group by 2, 3, 4
union all
select 'lag', p.value, null, null, null, min(l.lag) / 1000000.0
from json_each('[50, 95, 100]') p join lags l on l.place * 100 >= p.value * l.total group by p.value
union all
select 'failing', attempts, null, null, task, failed from (
    select * from tasks where failed > 0 order by failed desc, task limit 5)
union all
select 'seen', count(*), null, null, null, (min(finished_at) - :since) / 1000000.0 from tail having count(*) > 0;

-- activity: what ended lately by tenant and queue, from the same rows; since the begin of the covered period. The id of a
-- run that was due when it was submitted begins with the time of its job's id: no schedule foretold it
with {tail},
edge as materialized (
    select max(:since, coalesce(case when count(*) >= :most then min(t.finished_at) end, :since)) as since from tail t
)
select n.tenant_id, n.queue, e.since, count(*) filter (where t.end_state is not null) as ends,
    count(*) filter (where t.end_state is not null and t.due_at >= e.since) as arrived,
    count(*) filter (where t.end_state is not null and t.due_at >= e.since
        and substr(t.run_id, 1, 6) = substr(t.job_id, 1, 6)) as unplanned,
    count(t.started_at) as tried, coalesce(sum(t.finished_at - t.started_at), 0) / 1000000.0 as busy
from edge e join tail t on t.finished_at >= e.since join lanes n on n.id = t.lane_id group by 1, 2, 3;

-- template sizes(kind)
select i.tenant_id, i.stretch, '{kind}', max(length(i.{kind}) - 2, 0) * 100 + cast(substr(i.{kind}, 1, 2) as integer), count(*),
    null
from inside i where i.{kind} is not null group by 1, 2, 4
-- end

-- pace: attempts that ended in each minute of a time, from the same rows: by tenant and outcome, and by the size classes of
-- lags and durations (model/trends.py); and since when rows were seen
with {tail},
inside as materialized (
    select t.tenant_id, (t.finished_at - :since) / 60000000 as stretch, t.attempt_state, t.end_state,
        case when t.first_started_at is null and t.started_at is not null
            then cast(max(t.started_at - t.due_at, 0) / 100 as text) end as lags,
        case when t.started_at is not null then cast(max(t.finished_at - t.started_at, 0) / 100 as text) end as took
    from tail t where t.finished_at >= :since and t.finished_at < :until
)
select i.tenant_id, i.stretch, 'state' as kind, i.attempt_state * 100 + coalesce(i.end_state, 99) as number, count(*) as count,
    null as at
from inside i group by 1, 2, 4
union all
{sizes: lags}
union all
{sizes: took}
union all
select 0, 0, 'seen', count(*), 0, min(finished_at) from tail having count(*) > 0;

-- running_by_queue: what runs in slots of workers, by tenant and queue, up to a bound
select n.tenant_id, n.queue, count(*) as running, count(*) filter (where r.due_at >= :since) as arrived,
    count(*) filter (where r.due_at >= :since and substr(r.id, 1, 6) = substr(r.job_id, 1, 6)) as unplanned
from (
    -- As many numbers as there are ids in the blob.
    select c.worker_id, c.claim_no, substr(c.run_ids, x.key * 16 + 1, 16) as id from claims c
    cross join json_each('[' || substr(replace(hex(zeroblob(length(c.run_ids) / 16)), '00', ',0'), 2) || ']') x
    limit :most) h
cross join runs r on r.id = h.id and r.worker_id = h.worker_id and r.claim_no = h.claim_no
join lanes n on n.id = r.home_lane group by 1, 2;

-- cursors_ahead: the jobs that fire within a time, of crowded minutes a random sample
with inside as materialized (
    select job_id, scan_at, scan_at / 60000000 as minute, abs(random() % 1000000) as lot from cursors
    where scan_at >= :since and scan_at < :until and backlog_of is null order by scan_at limit :most
),
minutes as materialized (select minute, count(*) as there from inside group by minute),
crowd as materialized (select coalesce(sum(there), 0) as there from minutes where there > :few),
every as materialized (select count(*) as there, max(scan_at) as horizon from inside)
select i.job_id, m.there > :few as crowded, c.there as crowd, e.there as seen, e.horizon
from inside i join minutes m on m.minute = i.minute cross join crowd c cross join every e
where m.there <= :few or i.lot * c.there < :sampled * 1000000;

-- queue_ahead: the runs of a queue that wait (stretch -1), and those that become ready in each interval from now on
select stretch, lane_id, count(*) as runs, count(*) filter (where due_at >= :since and stretch < 0) as arrived,
    count(*) filter (where due_at >= :since and stretch < 0 and substr(id, 1, 6) = substr(job_id, 1, 6)) as unplanned,
    min(ready_at) as ready_at
from (
    select n.id as lane_id, r.id, r.job_id, r.ready_at, r.due_at,
        case when r.ready_at <= :now then -1 else (r.ready_at - :now) / cast(:step * 1000000 as integer) end as stretch
    from lanes n cross join runs r on r.lane_id = n.id and r.worker_id is null and r.ready_at < :until
    where n.tenant_id = :tenant_id and n.queue = :queue and n.awake limit :most)
group by 1, 2;

-- lane_depths: how many due runs wait in each of these lanes, up to a cap
select l.value as lane_id, (
        select count(*) from (
            select 1 from runs r where r.lane_id = l.value and r.worker_id is null and r.ready_at <= :now limit :cap)) as runs, (
        select count(*) from (
            select r.due_at from runs r where r.lane_id = l.value and r.worker_id is null and r.ready_at <= :now
            order by r.ready_at limit :cap) w where w.due_at >= :since) as arrived, (
        select r.ready_at from runs r where r.lane_id = l.value and r.worker_id is null and r.ready_at <= :now
        order by r.ready_at limit 1) as ready_at
from json_each(:lane_ids) l where ready_at is not null;

-- standing: how many jobs, running runs and dead letters a tenant has, up to a cap
with held as materialized (
    -- As many numbers as there are ids in the blob.
    select distinct substr(h.ids, x.key * 16 + 1, 16) as id
    from (select run_ids as ids from claims union all select run_id from handovers) h
    cross join json_each('[' || substr(replace(hex(zeroblob(length(h.ids) / 16)), '00', ',0'), 2) || ']') x
)
select (select count(*) from (select 1 from jobs where tenant_id = :tenant_id limit :cap + 1)) as jobs,
    (select count(*) from (
        select 1 from held x cross join runs r on r.id = x.id
        where r.tenant_id = :tenant_id and r.worker_id is not null limit :cap + 1)) as running,
    (select count(*) from (
        select 1 from dead_letters where tenant_id = :tenant_id limit :cap + 1)) as dead_letters;

-- estimate_jobs: the planner's estimate of a tenant's jobs: SQLite has none
select null as plan;

-- waiting_lanes: since when the first run of each lane is ready and has not started
select n.task, n.queue, (
    select min(r.ready_at) from runs r where r.lane_id = n.id and r.worker_id is null and r.ready_at <= :now) as ready_at
from lanes n where n.tenant_id = :tenant_id and n.awake order by ready_at;

-- runs_ahead: how many existing runs of a tenant are due later, by interval and queue
select (due_at - :start) / :step as stretch, queue, count(*) as runs from (
    select r.due_at, n.queue from lanes n join runs r on r.lane_id = n.id and r.worker_id is null
        and r.ready_at >= :since and r.ready_at < :until and r.due_at >= :since and r.due_at < :until
    where n.tenant_id = :tenant_id and n.awake limit :most)
group by 1, 2;

-- jobs_of_runs_ahead: jobs with such runs, and how many, newest first between two ids
select r.job_id, n.queue, count(*) as runs from lanes n join runs r on r.lane_id = n.id and r.worker_id is null
    and r.ready_at >= :since and r.ready_at < :until and r.due_at >= :since and r.due_at < :until
where n.tenant_id = :tenant_id and n.awake and r.job_id < :before and r.job_id >= :floor
group by 1, 2 order by r.job_id desc limit :most;

-- job_ids: the newest jobs of a tenant below an id
select id from jobs where tenant_id = :tenant_id and id < :before order by id desc limit :most;

-- count_jobs_to_sample: how many jobs a tenant has, up to a cap
select count(*) as count from (select 1 from jobs where tenant_id = :tenant_id limit :most);

-- sample_jobs: how many jobs a tenant has, up to a cap, and some of them by the last bytes of their ids, which are drawn
-- by lot
select count(*) as there, group_concat(hex(id), '') filter (where substr(id, 15) < :bound) as ids
from (select id from jobs where tenant_id = :tenant_id limit :most);

-- coming_jobs: what the fires of these jobs depend on, of those that have a cursor; without a tenant, of all tenants
select j.id as job_id, j.tenant_id, j.queue, j.recurring, j.schedule, j.options, c.next_fire_at, c.scan_at, c.made,
    c.owed
from json_each(:ids_places) x cross join jobs j on j.id = substr(:ids, x.key * 16 + 1, 16)
    and j.tenant_id = coalesce(:tenant_id, j.tenant_id) and j.state = JobState.ACTIVE
join cursors c on c.job_id = j.id;

-- recent_runs: the last ends of each of these jobs, newest first
select h.job_id, h.run_id, h.end_state, h.due_at, h.started_at, h.finished_at
from json_each(:ids_places) x cross join history h on h.rowid in (
    select o.rowid from history o indexed by history_of_job
    where o.tenant_id = :tenant_id and o.job_id = substr(:ids, x.key * 16 + 1, 16) and o.end_state is not null
    order by o.run_id desc limit :most)
order by h.job_id, h.run_id desc;
