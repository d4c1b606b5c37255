-- list_queues: the queues of a tenant, or one of them, with what waits in each lane up to a cap, and why
with known as (
    select name, paused_at from queues where tenant_id = :tenant_id and (:name is null or name = :name)
    union all
    select distinct l.queue, null from lanes l
    where l.tenant_id = :tenant_id and (:name is null or l.queue = :name)
        and not exists (select 1 from queues q where q.tenant_id = :tenant_id and q.name = l.queue)
    union all
    select o.name, null from limits o
    where o.tenant_id = :tenant_id and o.kind = LimitKind.QUEUE and (:name is null or o.name = :name)
        and not exists (select 1 from queues q where q.tenant_id = :tenant_id and q.name = o.name)
        and not exists (select 1 from lanes l where l.tenant_id = :tenant_id and l.queue = o.name)
)
select k.name, k.paused_at, l.tier, (
    select count(*) from (
        select 1 from runs r where r.lane_id = l.id and r.worker_id is null limit :cap) w) as depth,
    case when l.keyed then (
        select count(*) from (select 1 from runs r where r.lane_id = -l.id limit :cap) w) + (
        select count(*) from (
            select 1 from runs r where r.lane_id = l.id and r.worker_id is null and r.put_off_by is not null limit :cap) w)
    else 0 end as held_back,
    o.running, o.rate, o.period, (
        select count(*) from holds h join runs r
            on r.id = h.run_id and r.fence = h.fence and r.worker_id is not null
        where h.limit_id = o.id) as live
from known k left join lanes l on l.tenant_id = :tenant_id and l.queue = k.name and l.awake
left join limits o on o.tenant_id = :tenant_id and o.kind = LimitKind.QUEUE and o.name = k.name
order by k.name, l.tier;

-- list_tasks: the tasks of live workers for a tenant, one row for each worker
select t.value as name, w.queues from workers w, json_each(w.tasks) t
where w.lease_until > :now and coalesce(w.tenant_id, :tenant_id) = :tenant_id order by t.value;
