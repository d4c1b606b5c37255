-- create_key: add an API key
insert into duetime.api_keys (id, tenant_id, role, name, hash, hint, queues, expires_at, networks, owner, tag, created_at)
values (:id, :tenant_id, :role, :name, :hash, :hint, :queues::text[], :expires_at, :networks::text[], :owner, :tag, duetime.now())
returning id, tenant_id, role, name, hint, queues, created_at, expires_at, revoked_at, last_used_at, networks, owner, tag;

-- forget_keys: remove all but the newest revoked and expired keys of a tenant
delete from duetime.api_keys where id in (
    select k.id from duetime.api_keys k where coalesce(k.tenant_id, 0) = coalesce(:tenant_id::int, 0)
        and (k.revoked_at is not null or k.expires_at <= duetime.now())
    order by k.id desc limit 1000000 offset :kept);

-- list_keys: the keys of a tenant, or the root keys
select id, tenant_id, role, name, hint, queues, created_at, expires_at, revoked_at, last_used_at, networks, owner, tag
from duetime.api_keys where coalesce(tenant_id, 0) = coalesce(:tenant_id::int, 0) and id > :after
order by id limit :limit;

-- key_by_hash: the key whose text has this hash, if it may be used
select id, tenant_id, role, name, hint, queues, created_at, expires_at, revoked_at, last_used_at, networks, owner, tag
from duetime.api_keys
where hash = :hash and revoked_at is null and (expires_at is null or expires_at > duetime.now());

-- usable_key: a usable key, locked against revocation
select id, tenant_id, role, name, hint, queues, created_at, expires_at, revoked_at, last_used_at, networks, owner, tag
from duetime.api_keys
where id = :key_id and revoked_at is null and (expires_at is null or expires_at > duetime.now()) for update;

-- revoke_key: revoke a key, except for the last usable root key
update duetime.api_keys as k set revoked_at = coalesce(revoked_at, duetime.now())
where id = :key_id and coalesce(tenant_id, 0) = coalesce(:tenant_id::int, 0)
    and (tenant_id is not null or revoked_at is not null or expires_at <= duetime.now()
        or exists (select 1 from duetime.api_keys o
            where coalesce(o.tenant_id, 0) = 0 and o.id <> k.id
                and o.revoked_at is null and (o.expires_at is null or o.expires_at > duetime.now())))
returning id, tenant_id, role, name, hint, queues, created_at, expires_at, revoked_at, last_used_at, networks, owner, tag;

-- lock_key: a key, locked against other changes, and whether it is usable
select id, tenant_id, role, name, hint, queues, created_at, expires_at, revoked_at, last_used_at, networks, owner, tag,
    revoked_at is null and (expires_at is null or expires_at > duetime.now()) as usable
from duetime.api_keys where id = :key_id and coalesce(tenant_id, 0) = coalesce(:tenant_id::int, 0) for update;

-- end_key: let a key expire after a while
update duetime.api_keys set expires_at = duetime.now() + :overlap::interval
where id = :key_id and (expires_at is null or expires_at > duetime.now() + :overlap::interval);

-- touch_keys: record that keys were used, unless that was recorded lately
update duetime.api_keys set last_used_at = duetime.now()
where id = any(:ids::uuid[]) and (last_used_at is null or last_used_at < duetime.now() - :every::interval);

-- record_audit: append entries that the audit log does not have
insert into duetime.audit (id, at, tenant_id, key_id, actor, action, object, detail)
values (:id, duetime.now(), :tenant_id, :key_id, :actor, :action, :object, :detail) on conflict do nothing;

-- list_audit: the newest entries of a tenant
select id, tenant_id, key_id, actor, action, object, detail, at
from duetime.audit where tenant_id = :tenant_id and id < :before order by id desc limit :limit;

-- list_all_audit: the newest entries of all
select id, tenant_id, key_id, actor, action, object, detail, at
from duetime.audit where id < :before order by id desc limit :limit;
