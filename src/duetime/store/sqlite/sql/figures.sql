-- recent_attempts: what ended lately, from the newest rows; as (kind, number, states, text, value)
with tail as materialized (
    select h.tenant_id, h.lane_id, h.attempt, h.lost, h.attempt_state, h.end_state, h.due_at, h.started_at, h.finished_at
    from history h where h.rowid > (select coalesce(max(rowid), 0) from history) - :most
),
mine as materialized (
    select * from tail where tenant_id = :tenant_id and finished_at >= :since
),
lags as materialized (
    select m.started_at - m.due_at as lag, row_number() over (order by m.started_at - m.due_at) as place,
        count(*) over () as total
    from mine m where m.attempt = 1 and m.lost = 0 and m.started_at is not null
),
tasks as (
    select n.task, count(*) filter (where m.attempt_state in (2, 3)) as failed, count(*) as attempts
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

-- standing: how many jobs, running runs and dead letters a tenant has, up to a cap
select (select count(*) from (select 1 from jobs where tenant_id = :tenant_id limit :cap + 1)) as jobs,
    (select count(*) from (
        select 1 from json_each(:held_places) x cross join runs r on r.id = substr(:held, x.key * 16 + 1, 16)
        where r.tenant_id = :tenant_id and r.worker_id is not null limit :cap + 1)) as running,
    (select count(*) from (
        select 1 from dead_letters where tenant_id = :tenant_id limit :cap + 1)) as dead_letters;

-- waiting_lanes: since when the first run of each lane is ready and has not started
select n.task, n.queue, (
    select min(r.ready_at) from runs r where r.lane_id = n.id and r.worker_id is null and r.ready_at <= :now) as ready_at
from lanes n where n.tenant_id = :tenant_id order by ready_at;

-- upcoming_cursors: the first cursors of each stretch of time; of those of others only that they are there
select c.next_fire_at, j.id as job_id, j.queue, j.recurring, j.schedule, j.options
from (select job_id, next_fire_at from cursors where scan_at >= :start and scan_at < :until
    order by scan_at limit :each) c
left join jobs j on j.id = c.job_id and j.tenant_id = :tenant_id and j.state = 0;

-- count_cursors: how many cursors there are in a stretch of time, up to a cap
select count(*) from (select 1 from cursors where scan_at >= :start and scan_at < :until limit :cap);

-- upcoming_runs: runs of a tenant that are made, and become ready later
select r.ready_at, n.queue from lanes n join runs r on r.lane_id = n.id and r.worker_id is null
    and r.ready_at >= :start and r.ready_at < :until
where n.tenant_id = :tenant_id limit :most;

-- recent_runs: the last ends of a job, newest first
select job_id, run_id, end_state, due_at, started_at, finished_at from history indexed by history_of_job
where tenant_id = :tenant_id and job_id = :job_id and end_state is not null order by run_id desc limit :most;
