-- list_workers: the workers that have not left, all or those that work for a tenant; without their sessions
select id, name, tasks, queues, slots, started_at, lease_until, tenant_id, version, heard_at,
    null::uuid as key_id, null::bytea as token_hash
from duetime.workers
where :tenant_id::int is null or coalesce(tenant_id, :tenant_id) = :tenant_id order by started_at, id;

-- worker_by_id: one worker that has not left
select id, name, tasks, queues, slots, started_at, lease_until, tenant_id, version, heard_at, key_id, token_hash
from duetime.workers where id = :worker_id;

-- cancels_of_workers: runs that workers hold and are asked to stop
select c.worker_id, c.run_id from duetime.cancels c
join duetime.runs r on r.id = any(array[c.run_id]) and r.worker_id = c.worker_id
where c.worker_id = any(:ids::uuid[]) order by c.worker_id, c.run_id;

-- cancels_of_worker: runs that a worker holds and is asked to stop
select c.run_id from duetime.cancels c join duetime.runs r on r.id = any(array[c.run_id]) and r.worker_id = c.worker_id
where c.worker_id = :worker_id order by c.run_id;

-- leave: end a worker's lease
delete from duetime.workers where id = :worker_id;
