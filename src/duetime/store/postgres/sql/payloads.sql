-- held_payload: the bytes, for a worker that holds a run of a job that refers to them
select p.tenant_id, p.body from duetime.payloads p
where p.id = :id and exists (
    select 1 from duetime.payload_refs f cross join lateral (
        select o.worker_id from duetime.runs o
        where o.tenant_id = f.tenant_id and o.job_id = f.job_id and o.worker_id = :worker_id offset 0) r
    join duetime.workers w on w.id = r.worker_id and w.lease_until > duetime.now()
    where f.payload_id = p.id and f.tenant_id = p.tenant_id);
