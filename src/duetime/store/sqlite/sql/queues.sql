-- list_tasks: the tasks of live workers for a tenant, or one of them: a row for each group of workers with the same tasks and queues
select t.value as name, g.queues, g.workers
from (
    select w.tasks, w.queues, count(*) as workers from workers w
    where w.lease_until > :now and coalesce(w.tenant_id, :tenant_id) = :tenant_id
    group by w.tasks, w.queues) g
cross join json_each(g.tasks) t
where :name is null or t.value = :name order by t.value limit :most;

-- task_names: the tasks of live workers for a tenant
select distinct t.value as name
from (
    select distinct w.tasks from workers w
    where w.lease_until > :now and coalesce(w.tenant_id, :tenant_id) = :tenant_id) g
cross join json_each(g.tasks) t limit :most;
