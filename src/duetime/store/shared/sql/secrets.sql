-- put_tenant_secret: create or replace a secret of a tenant
insert into duetime.tenant_secrets (tenant_id, name, value, hosts, roles, created_at, changed_at)
values (:tenant_id, :name, :value, :hosts, :roles, duetime.now(), duetime.now())
on conflict (tenant_id, name) do update
set value = excluded.value, hosts = excluded.hosts, roles = excluded.roles, changed_at = excluded.changed_at
returning changed_at;

-- list_tenant_secrets: the secrets of a tenant, without their values
select name, created_at, changed_at, hosts, roles from duetime.tenant_secrets where tenant_id = :tenant_id order by name;

-- find_tenant_secret: a secret of a tenant
select value, hosts, roles from duetime.tenant_secrets where tenant_id = :tenant_id and name = :name;

-- drop_tenant_secret: remove a secret of a tenant
delete from duetime.tenant_secrets where tenant_id = :tenant_id and name = :name;

-- list_signing_secrets: the secrets that sign a tenant's requests now, newest first
select id, value, created_at, expires_at from duetime.signing_secrets
where tenant_id = :tenant_id and (expires_at is null or expires_at > duetime.now())
order by created_at desc, id desc limit 10;

-- forget_signing_secrets: remove the expired signing secrets of a tenant
delete from duetime.signing_secrets where tenant_id = :tenant_id and expires_at <= duetime.now();

-- end_signing_secrets: let all signing secrets of a tenant expire after a while
update duetime.signing_secrets set expires_at = duetime.now() + :overlap::interval
where tenant_id = :tenant_id and (expires_at is null or expires_at > duetime.now() + :overlap::interval);

-- add_signing_secret: add a signing secret, always or only if there is none
insert into duetime.signing_secrets (tenant_id, id, value, created_at)
select :tenant_id, :id, :value, duetime.now() where :always or not exists (
    select 1 from duetime.signing_secrets
    where tenant_id = :tenant_id and (expires_at is null or expires_at > duetime.now()));

-- list_data_keys: the wrapped data keys, newest first
select name, wrapped_by, wrapped, created_at from duetime.data_keys order by created_at desc, name desc;

-- add_data_key: store a new data key
insert into duetime.data_keys (name, wrapped_by, wrapped, created_at)
values (:name, :wrapped_by, :wrapped, duetime.clock());

-- rewrap_data_key: replace the wrapping of a data key
update duetime.data_keys set wrapped_by = :wrapped_by, wrapped = :wrapped where name = :name and wrapped = :old;
