-- worker_by_id: one worker that has not left
select id, name, tasks, queues, slots, started_at, lease_until, tenant_id, version, heard_at, key_id, token_hash
from workers where id = :worker_id;

-- runs_of_worker: those of some runs that a worker holds, as it claimed them
select r.id, r.job_id, r.lane_id, r.fence, r.attempt, r.lost, r.due_at, r.ready_at, r.started_at, r.args, r.options,
    r.timeout_ms, r.checkpoint
from json_each(:places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
where r.worker_id = :worker_id;

-- cancels_of_workers: runs that any of these workers holds and is asked to stop
select c.worker_id, c.run_id
from json_each(:places) x cross join cancels c on c.worker_id = substr(:ids, x.key * 16 + 1, 16)
join runs r on r.id = c.run_id and r.worker_id = c.worker_id
order by c.run_id;
