-- list_tasks: the tasks of live workers for a tenant, one row for each worker
select t.name, w.queues from duetime.workers w cross join lateral unnest(w.tasks) as t(name)
where w.lease_until > duetime.now() and coalesce(w.tenant_id, :tenant_id) = :tenant_id order by t.name;
