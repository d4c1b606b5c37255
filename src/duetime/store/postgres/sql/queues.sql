-- list_tasks: the tasks of live workers for a tenant, or one of them: a row for each group of workers with the same tasks and queues
select t.name, g.queues, g.workers
from (
    select w.tasks, w.queues, count(*) as workers from duetime.workers w
    where w.lease_until > duetime.now() and coalesce(w.tenant_id, :tenant_id) = :tenant_id
        and (:name::text is null or :name = any(w.tasks))
    group by w.tasks, w.queues) g
cross join lateral unnest(g.tasks) as t(name)
where :name::text is null or t.name = :name order by t.name limit :most;

-- task_names: the tasks of live workers for a tenant
select distinct t.name
from (
    select distinct w.tasks from duetime.workers w
    where w.lease_until > duetime.now() and coalesce(w.tenant_id, :tenant_id) = :tenant_id) g
cross join lateral unnest(g.tasks) as t(name) limit :most;
