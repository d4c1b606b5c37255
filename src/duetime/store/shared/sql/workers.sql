-- list_workers: the workers that have not left, all or those that work for a tenant; without their sessions
select id, name, tasks, queues, slots, started_at, lease_until, tenant_id, version, heard_at,
    null::uuid as key_id, null::bytea as token_hash, consumes
from duetime.workers
where :tenant_id::int is null or coalesce(tenant_id, :tenant_id) = :tenant_id order by started_at, id;

-- worker_by_id: one worker that has not left
select id, name, tasks, queues, slots, started_at, lease_until, tenant_id, version, heard_at, key_id, token_hash, consumes
from duetime.workers where id = :worker_id;

-- record_consumed: the streams that a worker consumes
update duetime.workers set consumes = :streams::text[] where id = :worker_id;

-- cancels_of_workers: runs that workers hold and are asked to stop
select c.worker_id, c.run_id from duetime.cancels c
join duetime.runs r on r.id = any(array[c.run_id]) and r.worker_id = c.worker_id
where c.worker_id = any(:ids::uuid[]) order by c.worker_id, c.run_id;

-- cancels_of_worker: runs that a worker holds and is asked to stop
select c.run_id from duetime.cancels c join duetime.runs r on r.id = any(array[c.run_id]) and r.worker_id = c.worker_id
where c.worker_id = :worker_id order by c.run_id;

-- list_past_workers: the workers that left or were lost, newest first, of those that worked for a tenant
select id, name, tasks, queues, slots, started_at, heard_at, version, ended_at, lost as gone, held as body, run_ids
from duetime.past_workers where coalesce(tenant_id, :tenant_id) = :tenant_id order by ended_at desc, id desc limit :limit;

-- fates_of_runs: what became of runs: where they wait or run, or how they ended
select r.id as run_id, l.task, null::smallint as end_state, r.attempt, r.lost, r.lane_id, r.worker_id
from duetime.runs r join duetime.lanes l on l.id = r.home_lane
where r.tenant_id is not distinct from :tenant_id and r.id = any(:ids::uuid[])
union all
select h.run_id, l.task, h.end_state, h.attempt, h.lost, h.lane_id, h.worker_id
from duetime.history h join duetime.lanes l on l.id = h.lane_id
where h.tenant_id = :tenant_id and h.run_id = any(:ids::uuid[]) and h.end_state is not null;

-- register_worker: begin a worker's lease
insert into duetime.workers as w (
    id, name, tasks, queues, slots, tenant_id, version, key_id, token_hash, started_at, heard_at, held_since, lease_until)
values (:id, :name, :tasks::text[], :queues::text[], :slots, :tenant_id, :version, :key_id, :token_hash,
    duetime.now(), duetime.now(), duetime.now(), duetime.now() + :lease::interval)
on conflict (id) do update set lease_until = excluded.lease_until, heard_at = excluded.heard_at,
    held_since = case when w.lease_until > duetime.now() then least(w.held_since, duetime.now()) else duetime.now() end
returning lease_until;
