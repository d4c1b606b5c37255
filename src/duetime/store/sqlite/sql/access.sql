-- create_key: add an API key
insert into api_keys (id, tenant_id, role, name, hash, hint, queues, expires_at, networks, created_at)
values (:id, :tenant_id, :role, :name, :hash, :hint, :queues, :expires_at, :networks, :now)
returning id, tenant_id, role, name, hint, queues, created_at, expires_at, revoked_at, last_used_at, networks;

-- forget_keys: of the keys of a tenant that cannot be used any more, keep the newest ones only
delete from api_keys where id in (
    select k.id from api_keys k where coalesce(k.tenant_id, 0) = coalesce(:tenant_id, 0)
        and (k.revoked_at is not null or k.expires_at <= :now)
    order by k.id desc limit -1 offset :kept);

-- list_keys: the keys of a tenant, or those of none
select id, tenant_id, role, name, hint, queues, created_at, expires_at, revoked_at, last_used_at, networks
from api_keys where coalesce(tenant_id, 0) = coalesce(:tenant_id, 0) and id > :after order by id limit :limit;

-- key_by_hash: the key whose text has this hash, if it may be used
select id, tenant_id, role, name, hint, queues, created_at, expires_at, revoked_at, last_used_at, networks
from api_keys where hash = :hash and revoked_at is null and (expires_at is null or expires_at > :now);

-- revoke_key: it cannot be used any more; not the last root key that can be used
update api_keys as k set revoked_at = coalesce(revoked_at, :now)
where id = :key_id and coalesce(tenant_id, 0) = coalesce(:tenant_id, 0)
    and (tenant_id is not null or revoked_at is not null or expires_at <= :now
        or exists (select 1 from api_keys o
            where coalesce(o.tenant_id, 0) = 0 and o.id <> k.id
                and o.revoked_at is null and (o.expires_at is null or o.expires_at > :now)))
returning id, tenant_id, role, name, hint, queues, created_at, expires_at, revoked_at, last_used_at, networks;

-- lock_key: a key, and whether it may be used
select id, tenant_id, role, name, hint, queues, created_at, expires_at, revoked_at, last_used_at, networks,
    revoked_at is null and (expires_at is null or expires_at > :now) as usable
from api_keys where id = :key_id and coalesce(tenant_id, 0) = coalesce(:tenant_id, 0);

-- end_key: let a key work for a while longer at most
update api_keys set expires_at = min(coalesce(expires_at, :until), :until) where id = :key_id;

-- touch_keys: note that a key was used, unless that was noted lately
update api_keys set last_used_at = :now
where id = :key_id and (last_used_at is null or last_used_at < :now - 60000000);

-- record_audit: add to the audit log what is not in it
insert into audit (id, at, tenant_id, key_id, actor, action, object, detail)
values (:id, :now, :tenant_id, :key_id, :actor, :action, :object, :detail)
on conflict do nothing;

-- list_audit: the newest entries of a tenant
select id, tenant_id, key_id, actor, action, object, detail, at
from audit where tenant_id = :tenant_id and id < :before order by id desc limit :limit;

-- list_all_audit: the newest entries of all
select id, tenant_id, key_id, actor, action, object, detail, at
from audit where id < :before order by id desc limit :limit;
