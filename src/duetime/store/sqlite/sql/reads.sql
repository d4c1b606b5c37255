-- find_job: a job in its first home
select j.id, j.tenant_id, j.task, j.queue, j.tier, j.schedule, j.recurring, j.state, c.next_fire_at, j.args, j.options,
    j.timeout_ms, j.version, j.created_at, j.problem, coalesce(c.made, j.made) as made,
    coalesce(c.missed, j.missed) as missed
from jobs j left join cursors c on c.job_id = j.id
where j.tenant_id = :tenant_id and j.id = :job_id
    and not exists (select 1 from deleted_jobs d where d.job_id = j.id);

-- is_deleted: whether a job was deleted
select 1 from deleted_jobs where tenant_id = :tenant_id and job_id = :job_id;

-- next_live_run: when the soonest waiting run of a job is due
select min(due_at) from runs where tenant_id = :tenant_id and job_id = :job_id and worker_id is null;

-- find_live_runs: live runs, by run or by job
select r.id, r.job_id, r.tenant_id, l.task, l.queue, l.tier, r.lane_id, r.attempt, r.lost, r.fence, r.due_at,
    r.ready_at, r.started_at, r.first_started_at, r.worker_id, w.lease_until, r.args, r.options, r.timeout_ms, r.progress, r.message,
    (select g.logs from live_logs g where g.run_id = r.id and g.fence = r.fence) as logs
from runs r join lanes l on l.id = r.home_lane left join workers w on w.id = r.worker_id
where r.tenant_id = :tenant_id and (r.id = :run_id or r.job_id = :job_id) order by r.id desc limit :limit;

-- find_attempts: the newest finished attempts of a run, newest first
select h.run_id, h.job_id, h.tenant_id, l.task, l.queue, l.tier, h.attempt, h.lost, h.fence, h.attempt_state,
    h.end_state, h.failure, h.error, h.due_at, h.ready_at, h.started_at, h.first_started_at, h.finished_at, h.worker_id,
    h.args, h.options, h.timeout_ms, h.result, h.logs
from history h cross join lanes l on l.id = h.lane_id
where h.tenant_id = :tenant_id and h.run_id = :run_id
order by h.fence desc, h.end_state is not null desc, h.finished_at desc limit :most;

-- ended_runs_of_job: the newest runs of a job that are over
select run_id from history indexed by history_of_job where job_id = :job_id and tenant_id = :tenant_id and end_state is not null
order by run_id desc limit :limit;

-- counts: how many rows each home holds
select (select count(*) from jobs), (select count(*) from runs), (select count(*) from history),
    (select count(*) from dead_letters);
