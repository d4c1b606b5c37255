-- find_attempts: the newest finished attempts of runs
select h.run_id, h.job_id, h.tenant_id, l.task, l.queue, l.tier, h.attempt, h.lost, h.fence, h.attempt_state,
    h.end_state, h.failure, h.error, h.due_at, h.ready_at, h.started_at, h.first_started_at, h.finished_at, h.worker_id,
    h.args, h.options, h.timeout_ms, h.result, h.logs
from unnest(:ids::uuid[]) as wanted(run_id)
cross join lateral (
    select * from duetime.history h where h.tenant_id = :tenant_id and h.run_id = wanted.run_id
    order by h.fence desc, h.end_state is not null desc, h.finished_at desc limit :most
) h
join duetime.lanes l on l.id = h.lane_id;

-- ended_runs_of_job: the newest runs of a job that are over
select run_id from duetime.history where tenant_id = :tenant_id and job_id between :job_id and :job_id and end_state is not null
order by job_id desc, run_id desc limit :limit;
