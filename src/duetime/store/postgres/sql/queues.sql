-- pause_queue: start nothing more from a queue
insert into duetime.queues (tenant_id, name, paused_at) values ($1, $2, duetime.now())
on conflict (tenant_id, name) do update set paused_at = coalesce(duetime.queues.paused_at, duetime.now());

-- resume_queue: start again; a queue that is not paused needs no row
delete from duetime.queues where tenant_id = $1 and name = $2;

-- list_queues: the queues of a tenant, or one of them, with what waits in each lane up to a cap, and why
with known as (
    select name, paused_at from duetime.queues where tenant_id = $1 and ($2::text is null or name = $2)
    union all
    select distinct l.queue, null::timestamptz from duetime.lanes l
    where l.tenant_id = $1 and ($2::text is null or l.queue = $2)
        and not exists (select 1 from duetime.queues q where q.tenant_id = $1 and q.name = l.queue)
    union all
    select o.name collate "default", null::timestamptz from duetime.limits o
    where o.tenant_id = $1 and o.kind = 2 and ($2::text is null or o.name = $2)
        and not exists (select 1 from duetime.queues q where q.tenant_id = $1 and q.name = o.name)
        and (select 1 from duetime.lanes l where l.tenant_id = $1 and l.queue = o.name collate "default" limit 1) is null
)
select k.name, k.paused_at, l.tier, (
    select count(*) from (
        select 1 from duetime.runs r where r.lane_id = l.id and r.worker_id is null limit $3) w) as depth,
    case when l.keyed then (
        select count(*) from (select 1 from duetime.runs r where r.lane_id = -l.id limit $3) w) + (
        select count(*) from (
            select 1 from duetime.runs r where r.lane_id = l.id and r.worker_id is null and r.put_off_by is not null limit $3) w)
    else 0 end as held_back,
    o.running, o.rate, o.period, (
        select count(*) from duetime.holds h join duetime.runs r
            on r.id = any(array[h.run_id]) and r.fence = h.fence and r.worker_id is not null
        where h.limit_id = o.id) as live
from known k
-- A probe for each, in the collation of its index. What is asleep has nothing waiting.
left join lateral (
    select * from duetime.lanes l where l.tenant_id = $1 and l.queue = k.name and l.awake offset 0) l on true
left join lateral (
    select * from duetime.limits o where o.tenant_id = $1 and o.kind = 2 and o.name = k.name collate "C" offset 0) o on true
order by k.name collate "C", l.tier;

-- paused_lanes: the lanes that nobody may claim from now
select l.id from duetime.queues q join duetime.lanes l on l.tenant_id = q.tenant_id and l.queue = q.name and l.awake
where q.paused_at is not null
union
select l.id from duetime.tenants t join duetime.lanes l on l.tenant_id = t.id and l.awake where t.state = 1;

-- list_tasks: the tasks of live workers for a tenant, one row for each worker
select t.name, w.queues from duetime.workers w cross join lateral unnest(w.tasks) as t(name)
where w.lease_until > duetime.now() and coalesce(w.tenant_id, $1) = $1 order by t.name;

-- list_task_defaults: what tasks say of a tenant's jobs, as it was told last
select name, said from (
    select distinct on (name) name, said from duetime.tasks where coalesce(tenant_id, $1) = $1
    order by name, told_at desc, tenant_id nulls last
) last where said is not null;
