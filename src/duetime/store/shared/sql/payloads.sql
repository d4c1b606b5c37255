-- put_payload: store bytes
insert into duetime.payloads (id, tenant_id, created_at, body) values (:id, :tenant_id, duetime.now(), :body);

-- find_payload: the bytes
select body from duetime.payloads where tenant_id = :tenant_id and id = :id;

-- drop_payload_refs: remove the references of jobs to a payload
delete from duetime.payload_refs where payload_id = :id and tenant_id = :tenant_id;

-- drop_payload: delete a payload
delete from duetime.payloads where tenant_id = :tenant_id and id = :id;

-- held_payload: the bytes, for a worker that holds a run of a job that refers to them
select p.tenant_id, p.body from duetime.payloads p
where p.id = :id and exists (
    select 1 from duetime.payload_refs f cross join lateral (
        select * from duetime.runs r
        where r.tenant_id = f.tenant_id and r.job_id = f.job_id and r.worker_id = :worker_id offset 0) r
    join duetime.workers w on w.id = r.worker_id and w.lease_until > duetime.now()
    where f.payload_id = p.id and f.tenant_id = p.tenant_id);
