-- put_payload: keep bytes
insert into duetime.payloads (id, tenant_id, created_at, body) values (:id, :tenant_id, duetime.now(), :body);

-- find_payload: the bytes
select body from duetime.payloads where tenant_id = :tenant_id and id = :id;

-- drop_payload_refs: forget which jobs refer to it
delete from duetime.payload_refs where payload_id = :id and tenant_id = :tenant_id;

-- drop_payload: erase it
delete from duetime.payloads where tenant_id = :tenant_id and id = :id;
