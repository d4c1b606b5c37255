-- due_cursors: the cursors in view, held against other nodes
select * from duetime.due_cursors($1);

-- fire: make the runs of these jobs; move the cursors of recurring ones, and the rows of one-offs
with fire as materialized (
    select * from unnest($1::uuid[], $2::uuid[], $3::int[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[],
                         $7::boolean[])
        as f(job_id, run_id, lane_id, due_at, next_fire_at, scan_at, recurring)
),
made as (
    insert into duetime.runs (id, job_id, tenant_id, lane_id, home_lane, due_at, ready_at, args, options, timeout_ms)
    select f.run_id, f.job_id, j.tenant_id, f.lane_id, f.lane_id, f.due_at, greatest(f.due_at, duetime.clock()), j.args,
           j.options, j.timeout_ms
    from fire f join duetime.jobs j on j.id = f.job_id
    on conflict (id) do nothing
),
moved as (
    update duetime.cursors c set next_fire_at = f.next_fire_at, scan_at = f.scan_at, last_fire_at = f.due_at
    from fire f where c.job_id = f.job_id and f.next_fire_at is not null
),
over as (
    delete from duetime.cursors c using fire f where c.job_id = f.job_id and f.next_fire_at is null
),
ended as (
    update duetime.jobs j set state = 2, ended_at = duetime.now() from fire f
    where j.id = f.job_id and f.recurring and f.next_fire_at is null
)
delete from duetime.jobs j using fire f where j.id = f.job_id and not f.recurring;

-- set_aside: pause jobs that cannot be processed, and say why
with cursor_of as (delete from duetime.cursors where job_id = any($1::uuid[]))
update duetime.jobs j set state = 1, problem = x.problem
from unnest($1::uuid[], $2::text[]) as x(job_id, problem) where j.id = x.job_id;

-- next_scan: how long until the next cursor comes into view
select min(scan_at) - duetime.clock() from (select scan_at from duetime.cursors order by scan_at limit 1) c;
