-- workers_of_task: the live workers for a task in a queue, their slots, and how many have the task for other queues only
select count(*) filter (where mine) as count, count(*) filter (where not mine) as there,
    coalesce(sum(slots) filter (where mine), 0) as slots
from (
    select w.slots, w.queues = '[]' or exists (select 1 from json_each(w.queues) q where q.value = :queue) as mine
    from workers w
    where w.lease_until > :now and coalesce(w.tenant_id, :tenant_id) = :tenant_id
        and exists (select 1 from json_each(w.tasks) t where t.value = :task)) w;

-- last_worker_of_task: the worker with a task that ended last
select p.name, p.ended_at, p.lost as gone from past_workers p
where coalesce(p.tenant_id, :tenant_id) = :tenant_id and exists (select 1 from json_each(p.tasks) t where t.value = :task)
order by p.ended_at desc limit 1;

-- busy_slots: how many runs the live workers for a task in a queue hold
select c.worker_id, count(*) as count
from workers w cross join claims c on c.worker_id = w.id
-- As many numbers as there are ids in the blob.
cross join json_each('[' || substr(replace(hex(zeroblob(length(c.run_ids) / 16)), '00', ',0'), 2) || ']') x
cross join runs r on r.id = substr(c.run_ids, x.key * 16 + 1, 16) and r.worker_id = c.worker_id and r.claim_no = c.claim_no
where w.lease_until > :now and coalesce(w.tenant_id, :tenant_id) = :tenant_id
    and exists (select 1 from json_each(w.tasks) t where t.value = :task)
    and (w.queues = '[]' or exists (select 1 from json_each(w.queues) q where q.value = :queue))
group by c.worker_id;

-- runs_ahead_of: how many ready runs of a queue are claimed before a run, by tier, up to a cap for all
select w.tier, count(*) as depth from (
    select l.tier from lanes l cross join runs r on r.lane_id = l.id and r.worker_id is null and r.ready_at <= :now
        and (l.tier < :tier or (r.ready_at, r.id) < (:ready_at, :run_id))
    where l.tenant_id = :tenant_id and l.queue = :queue and l.awake and l.tier <= :tier limit :cap) w
group by w.tier;
