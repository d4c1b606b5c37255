-- find_job: a job in its first home
select j.id, j.tenant_id, j.task, j.queue, j.tier, j.schedule, j.recurring, j.state, c.next_fire_at, j.args, j.options,
    j.timeout_ms, j.version, j.created_at, j.problem, coalesce(c.made, j.made) as made,
    coalesce(c.missed, j.missed) as missed
from duetime.jobs j left join duetime.cursors c on c.job_id = j.id
where j.tenant_id = $1 and j.id = $2
    and not exists (select 1 from duetime.deleted_jobs d where d.job_id = j.id);

-- is_deleted: whether a job was deleted
select 1 from duetime.deleted_jobs where tenant_id = $1 and job_id = $2;

-- next_live_run: when the soonest waiting run of a job is due
select min(due_at) from duetime.runs where tenant_id = $1 and job_id = $2 and worker_id is null;

-- find_live_runs: live runs, by run or by job
select r.id, r.job_id, r.tenant_id, l.task, l.queue, l.tier, r.lane_id, r.attempt, r.lost, r.fence, r.due_at,
    r.ready_at, r.started_at, r.first_started_at, r.worker_id, w.lease_until, r.args, r.options, r.timeout_ms, r.progress, r.message,
    (select g.logs from duetime.live_logs g where g.run_id = r.id and g.fence = r.fence) as logs
from duetime.runs r join duetime.lanes l on l.id = r.home_lane left join duetime.workers w on w.id = r.worker_id
where r.tenant_id = $1 and (r.id = $2 or r.job_id = $3)
-- by bytes, or the index of ids might be read whole for its order
order by uuid_send(r.id) desc limit $4;

-- find_attempts: the newest finished attempts of runs, oldest first
select h.run_id, h.job_id, h.tenant_id, l.task, l.queue, l.tier, h.attempt, h.lost, h.fence, h.attempt_state,
    h.end_state, h.failure, h.error, h.due_at, h.ready_at, h.started_at, h.first_started_at, h.finished_at, h.worker_id,
    h.args, h.options, h.timeout_ms, h.result, h.logs
from unnest($2::uuid[]) as wanted(run_id)
cross join lateral (
    select * from duetime.history h where h.tenant_id = $1 and h.run_id = wanted.run_id
    order by h.fence desc, h.end_state is not null desc, h.finished_at desc limit $3
) h
join duetime.lanes l on l.id = h.lane_id
order by h.run_id desc, h.fence, h.end_state is not null, h.finished_at;

-- ended_runs_of_job: the newest runs of a job that are over
select run_id from duetime.history where tenant_id = $1 and job_id between $2 and $2 and end_state is not null
order by job_id desc, run_id desc limit $3;

-- counts: how many rows each home holds
select (select count(*) from duetime.jobs), (select count(*) from duetime.runs),
    (select count(*) from duetime.history), (select count(*) from duetime.dead_letters);
