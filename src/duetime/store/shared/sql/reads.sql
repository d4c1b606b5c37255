-- find_job: a job in the table `jobs`
select j.id, j.tenant_id, j.task, j.queue, j.tier, j.schedule, j.recurring, j.state, c.next_fire_at, j.args, j.options,
    j.timeout_ms, j.version, j.created_at, j.problem, coalesce(c.made, j.made) as made,
    coalesce(c.missed, j.missed) as missed
from duetime.jobs j left join duetime.cursors c on c.job_id = j.id
where j.tenant_id = :tenant_id and j.id = :job_id
    and not exists (select 1 from duetime.deleted_jobs d where d.job_id = j.id);

-- is_deleted: whether a job was deleted
select 1 as known from duetime.deleted_jobs where tenant_id = :tenant_id and job_id = :job_id;

-- next_live_run: when the earliest waiting run of a job is due
select min(due_at) as due_at from duetime.runs where tenant_id = :tenant_id and job_id = :job_id and worker_id is null;

-- counts: how many rows each home holds
select (select count(*) from duetime.jobs) as jobs, (select count(*) from duetime.runs) as runs,
    (select count(*) from duetime.history) as history, (select count(*) from duetime.dead_letters) as dead_letters;

-- find_live_runs: live runs, by run or by job
select r.id, r.job_id, r.tenant_id, l.task, l.queue, l.tier, r.lane_id, r.attempt, r.lost, r.fence, r.due_at,
    r.ready_at, r.started_at, r.first_started_at, r.worker_id, w.lease_until, r.args, r.options, r.timeout_ms, r.progress, r.message,
    (select g.logs from duetime.live_logs g where g.run_id = r.id and g.fence = r.fence) as logs
from duetime.runs r join duetime.lanes l on l.id = r.home_lane left join duetime.workers w on w.id = r.worker_id
where r.tenant_id is not distinct from :tenant_id and r.id = any(array(
    select :run_id::uuid
    union all
    select o.id from duetime.runs o where o.tenant_id = :tenant_id and o.job_id = :job_id))
-- by bytes, or the index of ids might be read whole for its order
order by uuid_send(r.id) desc limit :limit;
