-- pause_queue: pause a queue
insert into duetime.queues (tenant_id, name, paused_at) values (:tenant_id, :name, duetime.now())
on conflict (tenant_id, name) do update set paused_at = coalesce(queues.paused_at, excluded.paused_at);

-- resume_queue: resume a queue, which then needs no row
delete from duetime.queues where tenant_id = :tenant_id and name = :name;

-- paused_lanes: the lanes of paused queues, and of tenants that are not active
select l.id from duetime.queues q join duetime.lanes l on l.tenant_id = q.tenant_id and l.queue = q.name and l.awake
where q.paused_at is not null
union
select l.id from duetime.tenants t join duetime.lanes l on l.tenant_id = t.id and l.awake
where t.state <> TenantState.ACTIVE;

-- queue_heads: since when each lane of a tenant has due runs, and how many of them were due since a moment, up to a cap
select l.queue, (
        select min(r.ready_at) from duetime.runs r
        where r.lane_id = l.id and r.worker_id is null and r.ready_at <= duetime.now()) as ready_at, (
        select count(*) from (
            select r.due_at from duetime.runs r
            where r.lane_id = l.id and r.worker_id is null and r.ready_at <= duetime.now()
            order by r.ready_at desc limit :cap) w where w.due_at >= :since) as arrived
from duetime.lanes l where l.tenant_id = :tenant_id and l.awake and (:name::text is null or l.queue = :name);

-- list_task_defaults: the last declared job defaults of a tenant's tasks
select name, said from (
    select name, said, row_number() over (partition by name order by told_at desc, tenant_id nulls last) as place
    from duetime.tasks where coalesce(tenant_id, :tenant_id) = :tenant_id
) last where place = 1 and said is not null;

-- list_task_schemas: which schemas a tenant's tasks have, or one of them, as last declared
select name, digest from (
    select name, digest, row_number() over (partition by name order by told_at desc, tenant_id nulls last) as place
    from duetime.tasks where coalesce(tenant_id, :tenant_id) = :tenant_id and (:name::text is null or name = :name)
) last where place = 1 and digest is not null;

-- task_schemas: schemas by their digests
select distinct digest, arguments from duetime.tasks
where coalesce(tenant_id, :tenant_id) = :tenant_id and digest = any(:digests::text[]);

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
-- A probe for each, in the collation of its index, and not by the index of lanes that are awake. What is asleep has
-- nothing waiting.
left join lateral (
    select * from duetime.lanes l
    where l.tenant_id = :tenant_id and l.queue = k.name and coalesce(l.awake, false) offset 0) l on true
left join lateral (
    select * from duetime.limits o where o.tenant_id = :tenant_id and o.kind = LimitKind.QUEUE
        and o.name = k.name collate "C" offset 0) o on true
order by k.name collate "C", l.tier;
