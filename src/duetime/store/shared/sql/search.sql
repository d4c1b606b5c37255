-- take_search: become the node that keeps the search index, unless another node is; returns how far it has come
update duetime.search_index set holder = :holder, held_until = duetime.now() + :period::interval
where one and (holder is null or holder = :holder or held_until <= duetime.now())
returning body;

-- keep_search: keep how far the search index has come
update duetime.search_index set body = :body, held_until = duetime.now() + :period::interval
where one and holder = :holder;

-- labels_above: labels by their jobs, oldest first
select tenant_id, kind::text as kind, value, job_id from duetime.labels
where job_id > :after and job_id < :before order by job_id limit :batch;

-- terms_above: where a part of the terms ends
select tenant_id, kind::text as kind, value from duetime.terms
where (tenant_id, kind, value) > (:tenant_id::int, :kind::text::"char", :value::text)
order by tenant_id, kind, value limit :batch;

-- tasks_of_tenant: the tasks of a tenant's jobs
select distinct task from duetime.lanes where tenant_id = :tenant_id;
