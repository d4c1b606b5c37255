-- put_payload: keep bytes
insert into duetime.payloads (id, tenant_id, created_at, body) values ($2, $1, duetime.now(), $3);

-- find_payload: the bytes
select body from duetime.payloads where tenant_id = $1 and id = $2;

-- held_payload: the bytes, for a worker that holds a run of a job that refers to them
select p.tenant_id, p.body from duetime.payloads p
where p.id = $2 and exists (
    select 1 from duetime.payload_refs f cross join lateral (
        select o.worker_id from duetime.runs o
        where o.tenant_id = f.tenant_id and o.job_id = f.job_id and o.worker_id = $1 offset 0) r
    join duetime.workers w on w.id = r.worker_id and w.lease_until > duetime.now()
    where f.payload_id = p.id and f.tenant_id = p.tenant_id);

-- drop_payload: erase it
with refs as (
    delete from duetime.payload_refs where payload_id = $2 and tenant_id = $1
)
delete from duetime.payloads where tenant_id = $1 and id = $2;
