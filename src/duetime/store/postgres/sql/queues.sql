-- list_queues: the queues of a tenant, or one of them, with what waits in each lane up to a cap, and why
with known as (
    select name, paused_at from duetime.queues where tenant_id = :tenant_id and (:name::text is null or name = :name)
    union all
    select distinct l.queue, null::timestamptz from duetime.lanes l
    where l.tenant_id = :tenant_id and (:name::text is null or l.queue = :name)
        and not exists (select 1 from duetime.queues q where q.tenant_id = :tenant_id and q.name = l.queue)
    union all
    select o.name collate "default", null::timestamptz from duetime.limits o
    where o.tenant_id = :tenant_id and o.kind = LimitKind.QUEUE and (:name::text is null or o.name = :name)
        and not exists (select 1 from duetime.queues q where q.tenant_id = :tenant_id and q.name = o.name)
        and (select 1 from duetime.lanes l where l.tenant_id = :tenant_id and l.queue = o.name collate "default" limit 1) is null
)
select k.name, k.paused_at, l.tier, (
    select count(*) from (
        select 1 from duetime.runs r where r.lane_id = l.id and r.worker_id is null limit :cap) w) as depth,
    case when l.keyed then (
        select count(*) from (select 1 from duetime.runs r where r.lane_id = -l.id limit :cap) w) + (
        select count(*) from (
            select 1 from duetime.runs r where r.lane_id = l.id and r.worker_id is null and r.put_off_by is not null limit :cap) w)
    else 0 end as held_back,
    o.running, o.rate, o.period, (
        select count(*) from duetime.holds h join duetime.runs r
            on r.id = any(array[h.run_id]) and r.fence = h.fence and r.worker_id is not null
        where h.limit_id = o.id) as live
from known k
-- A probe for each, in the collation of its index. What is asleep has nothing waiting.
left join lateral (
    select * from duetime.lanes l where l.tenant_id = :tenant_id and l.queue = k.name and l.awake offset 0) l on true
left join lateral (
    select * from duetime.limits o where o.tenant_id = :tenant_id and o.kind = LimitKind.QUEUE
        and o.name = k.name collate "C" offset 0) o on true
order by k.name collate "C", l.tier;

-- list_tasks: the tasks of live workers for a tenant, one row for each worker
select t.name, w.queues from duetime.workers w cross join lateral unnest(w.tasks) as t(name)
where w.lease_until > duetime.now() and coalesce(w.tenant_id, :tenant_id) = :tenant_id order by t.name;
