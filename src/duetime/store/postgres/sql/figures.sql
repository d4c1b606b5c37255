-- Figures are read across tenants where that is what bounds the effort (the newest end of history, the cursors of a
-- stretch of time), as the service's own role; each statement then keeps what belongs to its tenant.

-- blocks_of_day: how long the partitions of these names are, in blocks
select coalesce(pg_relation_size(to_regclass(n.name)), 0) / current_setting('block_size')::int as blocks
from unnest($1::text[]) with ordinality as n(name, place) order by n.place;

-- recent_attempts: what ended lately, from the newest blocks of up to two days; as (kind, number, states, text, value)
with tail as materialized (
    select 0 as day, h.tenant_id, h.lane_id, h.attempt, h.lost, h.attempt_state, h.end_state, h.due_at, h.started_at,
        h.finished_at
    from duetime.history h
    where h.finished_at >= $4 and h.finished_at < $5 and h.ctid >= ('(' || $6::bigint || ',0)')::tid
    union all
    select 1, h.tenant_id, h.lane_id, h.attempt, h.lost, h.attempt_state, h.end_state, h.due_at, h.started_at,
        h.finished_at
    from duetime.history h
    where h.finished_at >= $7 and h.finished_at < $8 and h.ctid >= ('(' || $9::bigint || ',0)')::tid
),
mine as materialized (
    select * from tail where tenant_id = $1 and finished_at >= $2
),
lags as materialized (
    select extract(epoch from m.started_at - m.due_at)::float8 as lag from mine m
    where m.attempt = 1 and m.lost = 0 and m.started_at is not null
),
tasks as (
    select n.task, count(*) filter (where m.attempt_state in (2, 3)) as failed, count(*) as attempts
    from mine m join duetime.lanes n on n.id = m.lane_id group by n.task
)
select 'step' as kind, floor(extract(epoch from m.finished_at - $2) / $3::float8)::int as number, m.attempt_state,
    m.end_state, null as name, count(*)::float8 as value
from mine m group by 2, 3, 4
union all
select 'lag', p.share, null, null, null, percentile_disc(p.share / 100.0) within group (order by l.lag)
from lags l cross join (values (50), (95), (100)) as p(share) group by p.share
union all
(select 'failing', t.attempts::int, null, null, t.task, t.failed from tasks t where t.failed > 0
    order by t.failed desc, t.task limit 5)
union all
select 'seen', t.day, null, null, null, extract(epoch from min(t.finished_at) - $2)::float8 from tail t group by t.day;

-- standing: how many jobs, running runs and dead letters a tenant has, up to a cap
select (select count(*) from (select 1 from duetime.jobs where tenant_id = $1 limit $2 + 1) j) as jobs,
    (select count(*) from (select 1 from duetime.running_runs() limit $2 + 1) r) as running,
    (select count(*) from (select 1 from duetime.dead_letters where tenant_id = $1 limit $2 + 1) d) as dead_letters;

-- estimate_jobs: how many jobs the planner believes a tenant has
explain (format json) select from duetime.jobs where tenant_id = $1;

-- waiting_lanes: since when the first run of each lane is ready and has not started
select n.task, n.queue, r.ready_at from duetime.lanes n cross join lateral (
    select r.ready_at from duetime.runs r where r.lane_id = n.id and r.worker_id is null
    order by r.ready_at limit 1) r
where n.tenant_id = $1 and r.ready_at <= duetime.now() order by r.ready_at;

-- upcoming_cursors: the first cursors of each stretch of time; of those of others only that they are there
select (b.place - 1)::int as stretch, c.next_fire_at, j.id as job_id, j.queue, j.recurring, j.schedule, j.options
from unnest($2::timestamptz[], $3::timestamptz[]) with ordinality as b(start, until, place)
cross join lateral (
    select c.job_id, c.next_fire_at from duetime.cursors c where c.scan_at >= b.start and c.scan_at < b.until
    order by c.scan_at limit $4) c
left join lateral (
    select * from duetime.jobs j where j.id = c.job_id and j.tenant_id = $1 and j.state = 0 limit 1) j on true
order by b.place;

-- count_cursors: how many cursors there are in a stretch of time, up to a cap
select count(*) from (
    select 1 from duetime.cursors where scan_at >= $1 and scan_at < $2 limit $3) c;

-- upcoming_runs: runs of a tenant that are made, and become ready later
select r.ready_at, n.queue from duetime.lanes n cross join lateral (
    select r.ready_at from duetime.runs r where r.lane_id = n.id and r.worker_id is null and r.ready_at >= $2
        and r.ready_at < $3
    order by r.ready_at limit $4) r
where n.tenant_id = $1 limit $4;

-- recent_runs: the last ends of each of these jobs, newest first
select h.job_id, h.run_id, h.end_state, h.due_at, h.started_at, h.finished_at
from unnest($2::uuid[]) as w(id)
cross join lateral duetime.history_by_run($1, 'ffffffff-ffff-ffff-ffff-ffffffffffff', w.id, null, $3) h
order by h.job_id, h.run_id desc;
