-- held_payload: the bytes, for a worker that holds a run of a job that refers to them
select p.tenant_id, p.body from payloads p
where p.id = :id and exists (
    select 1 from payload_refs f
    join runs r on r.tenant_id = f.tenant_id and r.job_id = f.job_id and r.worker_id = :worker_id
    join workers w on w.id = r.worker_id and w.lease_until > :now
    where f.payload_id = p.id and f.tenant_id = p.tenant_id);
