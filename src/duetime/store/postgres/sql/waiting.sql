-- workers_of_task: the live workers for a task in a queue, their slots, and how many have the task for other queues only
select count(*) filter (where mine) as count, count(*) filter (where not mine) as there,
    coalesce(sum(slots) filter (where mine), 0) as slots
from (
    select w.slots, w.queues = '{}' or :queue::text = any(w.queues) as mine from duetime.workers w
    where w.lease_until > duetime.now() and coalesce(w.tenant_id, :tenant_id) = :tenant_id
        and :task::text = any(w.tasks)) w;

-- last_worker_of_task: the worker with a task that ended last
select name, ended_at, lost as gone from duetime.past_workers
where coalesce(tenant_id, :tenant_id) = :tenant_id and :task::text = any(tasks) order by ended_at desc limit 1;

-- busy_slots: how many runs the live workers for a task in a queue hold
select c.worker_id, count(*) as count
from duetime.workers w cross join lateral (select * from duetime.claims c where c.worker_id = w.id offset 0) c cross join lateral (
    select 1 from duetime.runs o
    where o.id = any(c.run_ids) and o.worker_id = c.worker_id and o.claim_no = c.claim_no offset 0) r
where w.lease_until > duetime.now() and coalesce(w.tenant_id, :tenant_id) = :tenant_id and :task::text = any(w.tasks)
    and (w.queues = '{}' or :queue::text = any(w.queues))
group by c.worker_id;

-- runs_ahead_of: how many ready runs of a queue are claimed before a run, by tier, up to a cap for all
select w.tier, count(*) as depth from (
    select l.tier from duetime.lanes l cross join lateral (
        select 1 from duetime.runs r where r.lane_id = l.id and r.worker_id is null and r.ready_at <= duetime.now()
            and (l.tier < :tier or (r.ready_at, r.id) < (:ready_at::timestamptz, :run_id::uuid)) limit :cap) r
    where l.tenant_id = :tenant_id and l.queue = :queue and l.awake and l.tier <= :tier limit :cap) w
group by w.tier;
