-- runs_of_worker: those of some runs that a worker holds, as it claimed them
select r.id as run_id, r.job_id, r.lane_id, r.fence, r.attempt, r.lost, duetime.stamp(r.due_at) as due,
    duetime.stamp(r.ready_at) as ready, duetime.stamp(r.started_at) as started,
    r.args, r.options, r.timeout_ms, r.checkpoint
from duetime.runs r where r.id = any($2::uuid[]) and r.worker_id = $1;
