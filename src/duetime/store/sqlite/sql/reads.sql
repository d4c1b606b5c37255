-- find_attempts: the newest finished attempts of runs
select h.run_id, h.job_id, h.tenant_id, l.task, l.queue, l.tier, h.attempt, h.lost, h.fence, h.attempt_state,
    h.end_state, h.failure, h.error, h.due_at, h.ready_at, h.started_at, h.first_started_at, h.finished_at, h.worker_id,
    h.args, h.options, h.timeout_ms, h.result, h.logs
from json_each(:ids_places) x cross join history h on h.rowid in (
    select o.rowid from history o
    where o.tenant_id = :tenant_id and o.run_id = substr(:ids, x.key * 16 + 1, 16)
    order by o.fence desc, o.end_state is not null desc, o.finished_at desc limit :most)
cross join lanes l on l.id = h.lane_id;

-- ended_runs_of_job: the newest runs of a job that are over
select run_id from history indexed by history_of_job where job_id = :job_id and tenant_id = :tenant_id and end_state is not null
order by run_id desc limit :limit;
