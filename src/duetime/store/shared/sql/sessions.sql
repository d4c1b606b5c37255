-- begin_session: add a session, unless it exists: a login begins one only
insert into duetime.sessions (id, key_id, hash, address, agent, created_at, last_seen_at, expires_at, ends_at, identity,
    tenant_ids)
values (:id, :key_id, :hash, :address, :agent, duetime.now(), duetime.now(), duetime.now() + :idle::interval,
    duetime.now() + :lifetime::interval, :identity, :tenant_ids)
on conflict (id) do nothing;

-- end_surplus_sessions: remove expired sessions of a key, and its oldest ones beyond so many
delete from duetime.sessions where key_id = :key_id and (expires_at <= duetime.now() or id in (
    select s.id from duetime.sessions s where s.key_id = :key_id and s.expires_at > duetime.now()
    order by s.created_at desc, s.id desc limit 1000000 offset :most));

-- session_of: the session whose token has this hash, and its key, if both are usable
select s.id as session_id, s.identity, s.created_at as began_at, duetime.now() as at, k.id, k.tenant_id, k.role, k.name,
    k.hint, k.queues, k.created_at, k.expires_at, k.revoked_at, k.last_used_at, k.networks, k.owner, k.tag
from duetime.sessions s left join duetime.api_keys k on k.id = s.key_id
where s.hash = :hash and s.expires_at > duetime.now() and (s.identity is not null or k.id is not null
    and k.revoked_at is null and (k.expires_at is null or k.expires_at > duetime.now()));

-- list_sessions: sessions that have not ended: of a key, of a tenant, of all
select s.id, s.key_id, k.name as key_name, k.role, t.name as tenant, s.address, s.agent,
    s.created_at, s.last_seen_at, s.expires_at, s.ends_at, s.identity
from duetime.sessions s left join duetime.api_keys k on k.id = s.key_id left join duetime.tenants t on t.id = k.tenant_id
where (:key_id::uuid is null or s.key_id = :key_id)
    and (:tenant_id::int is null or k.tenant_id = :tenant_id or :tenant_id = any(s.tenant_ids))
    and s.id < :before and s.expires_at > duetime.now() and (s.identity is not null or k.id is not null
    and k.revoked_at is null and (k.expires_at is null or k.expires_at > duetime.now()))
order by s.id desc limit :limit;

-- find_session: one of them
select s.id, s.key_id, k.name as key_name, k.role, t.name as tenant, s.address, s.agent,
    s.created_at, s.last_seen_at, s.expires_at, s.ends_at, s.identity
from duetime.sessions s left join duetime.api_keys k on k.id = s.key_id left join duetime.tenants t on t.id = k.tenant_id
where (:key_id::uuid is null or s.key_id = :key_id)
    and (:tenant_id::int is null or k.tenant_id = :tenant_id or :tenant_id = any(s.tenant_ids))
    and s.id = :id and s.expires_at > duetime.now() and (s.identity is not null or k.id is not null
    and k.revoked_at is null and (k.expires_at is null or k.expires_at > duetime.now()));

-- touch_sessions: record that sessions were used, unless that was recorded lately
update duetime.sessions set last_seen_at = duetime.now(),
    expires_at = case when ends_at < duetime.now() + :idle::interval then ends_at else duetime.now() + :idle::interval end
where id = any(:ids::uuid[]) and expires_at > duetime.now() and last_seen_at < duetime.now() - :every::interval;

-- end_session: remove a session
delete from duetime.sessions where id = :id;

-- end_session_of: remove the session whose token has this hash
delete from duetime.sessions where hash = :hash;

-- add_login_link: add a link that begins one session
insert into duetime.login_links (hash, key_id, expires_at) values (:hash, :key_id, duetime.now() + :lasts::interval)
returning expires_at;

-- drop_surplus_links: remove the oldest links of a key beyond so many
delete from duetime.login_links where hash in (
    select hash from duetime.login_links where key_id = :key_id order by expires_at desc, hash desc
    limit 1000000 offset :most);

-- take_login_link: remove a link; returns its key, and whether it had not expired
delete from duetime.login_links where hash = :hash returning key_id, expires_at > duetime.now() as usable;
