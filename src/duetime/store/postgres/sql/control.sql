-- cancel_waiting: end runs that wait
with done as (
    delete from duetime.runs where tenant_id = $1 and id = any($2::uuid[]) and worker_id is null returning *
),
kept as (
    insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
        failure, due_at, ready_at, first_started_at, finished_at, timeout_ms, args, options, error)
    select id, job_id, tenant_id, home_lane, fence, attempt, lost, 5, 6, 4, due_at, ready_at, first_started_at,
        duetime.now(), timeout_ms, args, options, $3
    from done
),
told as (
    insert into duetime.events (at, kind, tenant_id, ids)
    select duetime.now(), 6, $1, array_agg(id) from done
    where (select l.until > duetime.now() from duetime.listening l where l.one) having count(*) > 0
)
select array_agg(id) from done;

-- ask_to_stop: ask the workers of running runs to stop them
with asked as (
    update duetime.runs set cancel_requested = true
    where tenant_id = $1 and id = any($2::uuid[]) and worker_id is not null
    returning id, worker_id
)
insert into duetime.cancels (worker_id, run_id, requested_at) select worker_id, id, duetime.now() from asked
on conflict do nothing;

-- lock_job: a job in its home, held against firing and editing
select j.id, j.tenant_id, j.task, j.queue, j.tier, j.recurring, j.state, j.created_at, c.next_fire_at
from duetime.jobs j left join duetime.cursors c on c.job_id = j.id
where j.tenant_id = $1 and j.id = $2 for update of j;

-- cancel_once: end a one-off job that has not fired, as its cancelled run
with gone as (
    delete from duetime.jobs where tenant_id = $1 and id = $2 returning *
),
cursor_of as (
    delete from duetime.cursors where job_id = $2
),
handed_on as (
    insert into duetime.ended (run_id, job_id, tenant_id, end_state, finished_at)
    select $3, id, tenant_id, 6, duetime.now() from gone where followed
),
told as (
    insert into duetime.events (at, kind, tenant_id, ids)
    select duetime.now(), 6, $1, array[$3::uuid] from duetime.listening l where l.one and l.until > duetime.now()
)
insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
    failure, due_at, finished_at, timeout_ms, args, options, error)
select $3, id, tenant_id, $4, 0, 0, 0, 5, 6, 4, $5, duetime.now(), timeout_ms, args, options, $6 from gone;

-- cancel_recurring: end a recurring job
with cursor_of as (
    delete from duetime.cursors where job_id = $2 returning made, missed
)
update duetime.jobs
set state = 3, ended_at = duetime.now(), made = coalesce((select made from cursor_of), made),
    missed = coalesce((select missed from cursor_of), missed)
where tenant_id = $1 and id = $2;

-- lock_schedule: a job in its home with its cursor, held against firing and editing
select j.task, j.queue, j.tier, j.recurring, j.state, j.version, j.schedule, j.args, j.options, j.timeout_ms,
    j.problem, c.next_fire_at, c.last_fire_at, c.exact, c.owed
from duetime.jobs j left join duetime.cursors c on c.job_id = j.id
where j.tenant_id = $1 and j.id = $2 and not exists (select 1 from duetime.deleted_jobs d where d.job_id = j.id)
for update of j;

-- hold_cursor: keep a cursor out of view, at the fire that is owed next
update duetime.cursors
set scan_at = '9999-01-01Z', next_fire_at = $2, last_fire_at = $3, owed = $4, made = greatest(0, made - $5),
    backlog_of = null
where job_id = $1;

-- put_cursor: bring a cursor back into view
insert into duetime.cursors (job_id, scan_at, next_fire_at, exact, made, missed)
select id, greatest($2::timestamptz, duetime.clock()), $3::timestamptz, $4::boolean, made, missed
from duetime.jobs where id = $1
on conflict (job_id) do update set scan_at = excluded.scan_at, next_fire_at = excluded.next_fire_at,
    backlog_of = null;

-- set_job_state: pause a job, or make it active again
update duetime.jobs set state = $3, problem = null where tenant_id = $1 and id = $2;

-- lock_runs: hold runs against completion
select id from duetime.runs where tenant_id = $1 and id = any($2::uuid[]) order by id for update;

-- withdraw_run: take back one run that no worker has ever held; this is not an end state
delete from duetime.runs where tenant_id = $1 and id = $2 and fence = 0;
