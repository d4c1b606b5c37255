-- list_tasks: the tasks of live workers for a tenant, one row for each worker
select t.value as name, w.queues from workers w, json_each(w.tasks) t
where w.lease_until > :now and coalesce(w.tenant_id, :tenant_id) = :tenant_id order by t.value;
