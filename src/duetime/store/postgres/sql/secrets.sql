-- put_tenant_secret: keep a secret of a tenant, new or not
insert into duetime.tenant_secrets (tenant_id, name, value, hosts, roles, created_at, changed_at)
values ($1, $2, $3, $4, $5, duetime.now(), duetime.now())
on conflict (tenant_id, name) do update
set value = excluded.value, hosts = excluded.hosts, roles = excluded.roles, changed_at = excluded.changed_at
returning changed_at;

-- list_tenant_secrets: what may be told of the secrets of a tenant
select name, created_at, changed_at, hosts, roles from duetime.tenant_secrets where tenant_id = $1 order by name;

-- find_tenant_secret: a secret of a tenant
select value, hosts, roles from duetime.tenant_secrets where tenant_id = $1 and name = $2;

-- drop_tenant_secret: remove a secret of a tenant
delete from duetime.tenant_secrets where tenant_id = $1 and name = $2;

-- list_signing_secrets: what a tenant's requests are signed with now, newest first
select id, value, created_at, expires_at from duetime.signing_secrets
where tenant_id = $1 and (expires_at is null or expires_at > duetime.now())
order by created_at desc, id desc limit 10;

-- end_signing_secrets: let all signing secrets of a tenant sign for a while only, and forget those that are over
with gone as (
    delete from duetime.signing_secrets where tenant_id = $1 and expires_at <= duetime.now()
)
update duetime.signing_secrets set expires_at = least(expires_at, duetime.now() + $2::interval)
where tenant_id = $1 and (expires_at is null or expires_at > duetime.now());

-- add_signing_secret: add a signing secret, always or only where there is none
insert into duetime.signing_secrets (tenant_id, id, value, created_at)
select $1, $2, $3, duetime.now() where $4 or not exists (
    select 1 from duetime.signing_secrets where tenant_id = $1 and (expires_at is null or expires_at > duetime.now()));

-- list_data_keys: the wrapped data keys, newest first
select name, wrapped_by, wrapped, created_at from duetime.data_keys order by created_at desc, name desc;

-- add_data_key: keep a new data key
insert into duetime.data_keys (name, wrapped_by, wrapped, created_at) values ($1, $2, $3, duetime.clock());

-- rewrap_data_key: a data key wrapped by another key
update duetime.data_keys set wrapped_by = $3, wrapped = $4 where name = $1 and wrapped = $2;
