-- pause_queue: start nothing more from a queue
insert into queues (tenant_id, name, paused_at) values (:tenant_id, :name, :now)
on conflict (tenant_id, name) do update set paused_at = coalesce(queues.paused_at, excluded.paused_at);

-- resume_queue: start again
update queues set paused_at = null where tenant_id = :tenant_id and name = :name;

-- list_queues: the queues of a tenant, or one of them, with what waits in each lane up to a cap
with known as (
    select name, paused_at from queues where tenant_id = :tenant_id and (:name is null or name = :name)
    union all
    select distinct l.queue, null from lanes l
    where l.tenant_id = :tenant_id and (:name is null or l.queue = :name)
        and not exists (select 1 from queues q where q.tenant_id = :tenant_id and q.name = l.queue)
)
select k.name, k.paused_at, l.tier, (
    select count(*) from (
        select 1 from runs r where r.lane_id = l.id and r.worker_id is null limit :cap)) as depth
from known k left join lanes l on l.tenant_id = :tenant_id and l.queue = k.name
order by k.name, l.tier;

-- paused_lanes: the lanes that nobody may claim from now
select l.id from queues q join lanes l on l.tenant_id = q.tenant_id and l.queue = q.name
where q.paused_at is not null
union
select l.id from tenants t join lanes l on l.tenant_id = t.id where t.state = 1;

-- list_tasks: the tasks of live workers for a tenant, one row for each worker
select t.value, w.queues from workers w, json_each(w.tasks) t
where w.lease_until > :now and coalesce(w.tenant_id, :tenant_id) = :tenant_id order by t.value;
