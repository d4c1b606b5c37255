-- due_cursors: the cursors in view above a low-water mark, locked against other nodes; not those that this node passes by
select * from duetime.cursors_in_view($1, $2, $3);

-- admit_fires: the time, and how many tenants may fire of what is due now, of those that may not fire all of it; the rates of
-- these are charged
select duetime.clock(), f.tenant_id, f.granted
from (select) as one left join duetime.admit_fires($1::int[], $2::int[]) f on true;

-- refund_fires: give back what rates were charged for fires that were not made
select duetime.refund_fires(x.tenant_id, x.count) from unnest($1::int[], $2::bigint[]) as x(tenant_id, count);

-- put_in_backlogs: have cursors wait until their tenants may fire them
update duetime.cursors c set backlog_of = x.tenant_id from unnest($1::uuid[], $2::int[]) as x(job_id, tenant_id)
where c.job_id = any(array[x.job_id]);

-- live_runs_of: the live runs of jobs that are decided when they are due
select r.job_id, r.id, r.worker_id is not null
from unnest($1::int[], $2::uuid[]) as x(tenant_id, job_id) cross join lateral (
    select o.id, o.job_id, o.worker_id from duetime.runs o
    where o.tenant_id = x.tenant_id and o.job_id = x.job_id offset 0) r
order by r.id;

-- hold_free_runs: lock the runs that no other transaction has locked
select id from duetime.runs where id = any($1::uuid[]) order by id for update skip locked;

-- which_live: which of these runs are not over
select id from duetime.runs where id = any($1::uuid[]);

-- make_runs: make runs of stored jobs, ready when they are due unless it is said; those that are blocked have no lane yet
with made as (
insert into duetime.runs (id, job_id, tenant_id, lane_id, home_lane, waits, manual, due_at, ready_at, args, options,
    timeout_ms, followed)
select f.run_id, f.job_id, j.tenant_id, case when f.blocked then null else f.lane_id end, f.lane_id,
    case when f.blocked then WaitsFor.OTHER_RUNS else WaitsFor.NOTHING end, $7::boolean, duetime.moment(f.due),
    greatest(duetime.moment(coalesce(f.ready, f.due)), duetime.clock()), j.args, j.options, j.timeout_ms, j.followed
from unnest($1::uuid[], $2::uuid[], $3::int[], $4::bigint[], $5::bigint[], $6::boolean[])
    as f(job_id, run_id, lane_id, due, ready, blocked)
join duetime.jobs j on j.id = any(array[f.job_id])
on conflict (id) do nothing
returning id, tenant_id
)
insert into duetime.events (at, kind, tenant_id, ids)
select duetime.now(), EventKind.FIRED, m.tenant_id, array_agg(m.id) from made m
where (select l.until > duetime.now() from duetime.listening l where l.one) group by m.tenant_id;

-- skip_runs: keep occurrences that made no run, and why
with kept as (
insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
    due_at, finished_at, error)
select s.run_id, s.job_id, j.tenant_id, s.lane_id, 0, 0, 0, AttemptState.SKIPPED, RunState.SKIPPED, s.due_at,
    duetime.now(), s.reason
from unnest($1::uuid[], $2::uuid[], $3::int[], $4::timestamptz[], $5::text[])
    as s(job_id, run_id, lane_id, due_at, reason)
join duetime.jobs j on j.id = any(array[s.job_id])
    and j.version > 0 -- always; but no index has it, so that the one of tenants is not read for the rest
returning run_id, tenant_id
)
insert into duetime.events (at, kind, tenant_id, ids)
select duetime.now(), EventKind.SKIPPED, k.tenant_id, array_agg(k.run_id) from kept k
where (select l.until > duetime.now() from duetime.listening l where l.one) group by k.tenant_id;

-- keep_fences: runs that were made again go on with the fences of their claims
update duetime.runs r set fence = x.fence from unnest(:run_id::uuid[], :fence::int[]) as x(id, fence)
where r.id = any(array[x.id]) and r.fence = 0 and r.worker_id is null;

-- move_cursors: move the cursors of recurring jobs on, and the rows of one-offs out. Unless it is said, each has made one
-- run, missed none, and is recurring
with fire as materialized (
    select f.job_id, duetime.moment(f.next) as next_fire_at, duetime.moment(f.scan) as scan_at,
        duetime.moment(f.last) as last_fire_at, coalesce(f.made, 1) as made, coalesce(f.missed, 0) as missed,
        coalesce(f.recurring, true) as recurring
    from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::int[], $6::int[], $7::boolean[])
        as f(job_id, next, scan, last, made, missed, recurring)
),
moved as (
    update duetime.cursors c
    set next_fire_at = f.next_fire_at, scan_at = greatest(f.scan_at, duetime.clock()),
        last_fire_at = coalesce(f.last_fire_at, c.last_fire_at), made = c.made + f.made, missed = c.missed + f.missed,
        owed = null, backlog_of = null
    from fire f where c.job_id = any(array[f.job_id]) and f.next_fire_at is not null
),
over as (
    delete from duetime.cursors c using fire f where c.job_id = any(array[f.job_id]) and f.next_fire_at is null
    returning c.job_id, c.made + f.made as made, c.missed + f.missed as missed
),
ended as (
    update duetime.jobs j set state = JobState.ENDED, ended_at = duetime.now(), made = o.made, missed = o.missed
    from fire f join over o on o.job_id = f.job_id where j.id = any(array[f.job_id]) and f.recurring
)
delete from duetime.jobs j using fire f where j.id = any(array[f.job_id]) and not f.recurring;

-- set_aside: pause jobs that cannot be processed where they stand, and say why
with held as (update duetime.cursors set scan_at = '9999-01-01Z', backlog_of = null where job_id = any(:job_id::uuid[]))
update duetime.jobs j set state = JobState.PAUSED, problem = x.problem
from unnest(:job_id::uuid[], :problem::text[]) as x(job_id, problem) where j.id = any(array[x.job_id]);

-- unblock: give their lanes to runs that waited for other runs of their job, now that those are over. Of several that
-- wait, only the first: it is what the next one waits for
update duetime.runs r set lane_id = r.home_lane, waits = WaitsFor.NOTHING, ready_at = greatest(r.due_at, duetime.clock())
where r.ctid = any(array(
    select b.ctid from duetime.runs b
    where b.lane_id is null and b.waits = WaitsFor.OTHER_RUNS and (
        select 1 from duetime.runs o
        where o.tenant_id = b.tenant_id and o.job_id = b.job_id and (o.lane_id is not null or o.id < b.id)
        limit 1) is null
    limit $1 for update skip locked));

-- next_scan: the first cursor above a low-water mark, the time, and the snapshot it was seen in; a while after $2 also a
-- number that is above all transactions that have begun
select (select c.scan_at from duetime.cursors c where c.scan_at >= $1 and c.backlog_of is null
    order by c.scan_at limit 1), duetime.clock(),
    duetime.now(), pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
    case when $2::timestamptz is null or duetime.now() >= $2 + interval '1.2 seconds'
        then pg_current_xact_id()::text::bigint end;
