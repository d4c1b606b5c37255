-- put_payload: store bytes
insert into duetime.payloads (id, tenant_id, created_at, body) values (:id, :tenant_id, duetime.now(), :body);

-- find_payload: the bytes
select body from duetime.payloads where tenant_id = :tenant_id and id = :id;

-- drop_payload_refs: remove the references of jobs to a payload
delete from duetime.payload_refs where payload_id = :id and tenant_id = :tenant_id;

-- drop_payload: delete a payload
delete from duetime.payloads where tenant_id = :tenant_id and id = :id;
