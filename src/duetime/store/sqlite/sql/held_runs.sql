-- runs_of_worker: those of some runs that a worker holds, as it claimed them
select r.id, r.job_id, r.lane_id, r.fence, r.attempt, r.lost, r.due_at, r.ready_at, r.started_at, r.args, r.options,
    r.timeout_ms, r.checkpoint
from json_each(:places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
where r.worker_id = :worker_id;
