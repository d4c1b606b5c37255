-- pause_queue: start nothing more from a queue
insert into queues (tenant_id, name, paused_at) values (:tenant_id, :name, :now)
on conflict (tenant_id, name) do update set paused_at = coalesce(queues.paused_at, excluded.paused_at);

-- resume_queue: start again; a queue that is not paused needs no row
delete from queues where tenant_id = :tenant_id and name = :name;

-- list_queues: the queues of a tenant, or one of them, with what waits in each lane up to a cap, and why
with known as (
    select name, paused_at from queues where tenant_id = :tenant_id and (:name is null or name = :name)
    union all
    select distinct l.queue, null from lanes l
    where l.tenant_id = :tenant_id and (:name is null or l.queue = :name)
        and not exists (select 1 from queues q where q.tenant_id = :tenant_id and q.name = l.queue)
    union all
    select o.name, null from limits o
    where o.tenant_id = :tenant_id and o.kind = 2 and (:name is null or o.name = :name)
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
left join limits o on o.tenant_id = :tenant_id and o.kind = 2 and o.name = k.name
order by k.name, l.tier;

-- paused_lanes: the lanes that nobody may claim from now
select l.id from queues q join lanes l on l.tenant_id = q.tenant_id and l.queue = q.name and l.awake
where q.paused_at is not null
union
select l.id from tenants t join lanes l on l.tenant_id = t.id and l.awake where t.state = 1;

-- list_tasks: the tasks of live workers for a tenant, one row for each worker
select t.value, w.queues from workers w, json_each(w.tasks) t
where w.lease_until > :now and coalesce(w.tenant_id, :tenant_id) = :tenant_id order by t.value;

-- list_task_defaults: what tasks say of a tenant's jobs, as it was told last
select name, said from (
    select name, said, row_number() over (partition by name order by told_at desc, tenant_id desc nulls last) as place
    from tasks where coalesce(tenant_id, :tenant_id) = :tenant_id
) where place = 1 and said is not null;
