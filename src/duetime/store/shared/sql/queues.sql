-- pause_queue: pause a queue
insert into duetime.queues (tenant_id, name, paused_at) values (:tenant_id, :name, duetime.now())
on conflict (tenant_id, name) do update set paused_at = coalesce(queues.paused_at, excluded.paused_at);

-- resume_queue: resume a queue, which then needs no row
delete from duetime.queues where tenant_id = :tenant_id and name = :name;

-- paused_lanes: the lanes of paused queues and suspended tenants
select l.id from duetime.queues q join duetime.lanes l on l.tenant_id = q.tenant_id and l.queue = q.name and l.awake
where q.paused_at is not null
union
select l.id from duetime.tenants t join duetime.lanes l on l.tenant_id = t.id and l.awake
where t.state = TenantState.SUSPENDED;

-- list_task_defaults: the last declared job defaults of a tenant's tasks
select name, said from (
    select name, said, row_number() over (partition by name order by told_at desc, tenant_id nulls last) as place
    from duetime.tasks where coalesce(tenant_id, :tenant_id) = :tenant_id
) last where place = 1 and said is not null;

-- list_task_schemas: which schemas a tenant's tasks have, as last declared
select name, digest from (
    select name, digest, row_number() over (partition by name order by told_at desc, tenant_id nulls last) as place
    from duetime.tasks where coalesce(tenant_id, :tenant_id) = :tenant_id
) last where place = 1 and digest is not null;

-- task_schemas: schemas by their digests
select distinct digest, arguments from duetime.tasks
where coalesce(tenant_id, :tenant_id) = :tenant_id and digest = any(:digests::text[]);
