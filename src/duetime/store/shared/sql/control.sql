-- lock_job: a job in its first home, held against firing and editing
select j.task, j.queue, j.tier, j.recurring, j.state, j.created_at, c.next_fire_at
from duetime.jobs j left join duetime.cursors c on c.job_id = j.id
where j.tenant_id = :tenant_id and j.id = :job_id for update of j;

-- keep_cancelled_once: keep a one-off job that has not fired as its cancelled run
insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
    failure, due_at, finished_at, timeout_ms, args, options, error)
select :run_id::uuid, id, tenant_id, :lane_id::int, 0, 0, 0, AttemptState.CANCELLED, RunState.CANCELLED,
    FailureClass.CANCELLED, :due_at::timestamptz, duetime.now(), timeout_ms, args, options, :error::text
from duetime.jobs where tenant_id = :tenant_id and id = :job_id;

-- note_cancelled_once: note its end, if another job waits for it
insert into duetime.ended (run_id, job_id, tenant_id, end_state, finished_at)
select :run_id::uuid, id, tenant_id, RunState.CANCELLED, duetime.now() from duetime.jobs
where tenant_id = :tenant_id and id = :job_id and followed;

-- drop_job: remove a job from its first home
delete from duetime.jobs where tenant_id = :tenant_id and id = :job_id;

-- cancel_recurring: end a recurring job; it keeps the counts of its cursor
update duetime.jobs as j
set state = JobState.CANCELLED, ended_at = duetime.now(),
    made = coalesce((select c.made from duetime.cursors c where c.job_id = j.id), j.made),
    missed = coalesce((select c.missed from duetime.cursors c where c.job_id = j.id), j.missed)
where j.tenant_id = :tenant_id and j.id = :job_id;

-- drop_cursor: a job fires no more
delete from duetime.cursors where job_id = :job_id;

-- lock_schedule: a job in its first home with its cursor, held against firing and editing
select j.task, j.queue, j.tier, j.recurring, j.state, j.version, j.schedule, j.args, j.options, j.timeout_ms,
    j.problem, c.next_fire_at, c.last_fire_at, c.exact, c.owed
from duetime.jobs j left join duetime.cursors c on c.job_id = j.id
where j.tenant_id = :tenant_id and j.id = :job_id
    and not exists (select 1 from duetime.deleted_jobs d where d.job_id = j.id)
for update of j;

-- hold_cursor: keep a cursor out of view, at the fire that is owed next
update duetime.cursors
set scan_at = '9999-01-01Z', next_fire_at = :next_fire_at, last_fire_at = :last_fire_at, owed = :owed,
    made = greatest(0, made - :withdrawn::int), backlog_of = null
where job_id = :job_id;

-- put_cursor: bring a cursor back into view
insert into duetime.cursors (job_id, scan_at, next_fire_at, exact, made, missed)
select id, greatest(:scan_at::timestamptz, duetime.clock()), :next_fire_at::timestamptz, :exact::boolean, made, missed
from duetime.jobs where id = :job_id
on conflict (job_id) do update set scan_at = excluded.scan_at, next_fire_at = excluded.next_fire_at,
    backlog_of = null;

-- set_job_state: pause a job, or make it active again
update duetime.jobs set state = :state, problem = null where tenant_id = :tenant_id and id = :job_id;

-- see_live_job: the job behind a key, in the table `jobs`
select j.state, j.problem, c.next_fire_at from duetime.jobs j left join duetime.cursors c on c.job_id = j.id
where j.tenant_id = :tenant_id and j.id = :job_id;

-- see_live_runs: the live runs of a job
select id, fence = 0 as unclaimed, due_at from duetime.runs
where tenant_id = :tenant_id and job_id = :job_id
-- by bytes, or the index of ids might be read whole for its order
order by uuid_send(id);

-- lock_live_runs: the live runs of a job, held against claims
select id, fence = 0 as unclaimed, due_at from duetime.runs
where tenant_id = :tenant_id and job_id = :job_id
-- by bytes, or the index of ids might be read whole for its order
order by uuid_send(id) for update;

-- withdraw_run: take back one run that no worker has ever held; this is not an end state
delete from duetime.runs where tenant_id is not distinct from :tenant_id and id = :run_id and fence = 0;

-- paused_jobs: of runs that wait again unstarted, the jobs that are paused, each with its cursor
select j.id, j.tenant_id, j.schedule, c.next_fire_at, c.last_fire_at, c.owed
from duetime.jobs j
left join lateral (select * from duetime.cursors c where c.job_id = j.id limit 1) c on true
where j.state = JobState.PAUSED and j.id = any(array(
    select r.job_id from duetime.runs r
    where r.id = any(:ids::uuid[]) and r.attempt = 0 and r.lost = 0 and not r.manual))
-- by bytes, or the index of ids might be read whole for its order
order by uuid_send(j.id);

-- replaced_runs: which of these runs were asked to stop for a later occurrence
select run_id from duetime.cancels where replaced and run_id = any(:ids::uuid[]);
