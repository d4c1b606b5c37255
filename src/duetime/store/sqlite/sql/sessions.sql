-- usable_key: a key, if it may be used
select id from api_keys where id = :key_id and revoked_at is null and (expires_at is null or expires_at > :now);

-- begin_session: add a session
insert into sessions (id, key_id, hash, address, agent, created_at, last_seen_at, expires_at, ends_at)
values (:id, :key_id, :hash, :address, :agent, :now, :now, :now + min(:lifetime, :idle), :now + :lifetime);

-- end_surplus_sessions: end the oldest sessions of a key beyond so many, and remove those that are over
delete from sessions where key_id = :key_id and (expires_at <= :now or id in (
    select s.id from sessions s where s.key_id = :key_id and s.expires_at > :now
    order by s.created_at desc, s.id desc limit -1 offset :most));

-- session_of: the session whose token has this hash, and its key, if both may be used
select s.id as session_id, k.id, k.tenant_id, k.role, k.name, k.hint, k.queues, k.created_at, k.expires_at, k.revoked_at, k.last_used_at,
    k.networks
from sessions s join api_keys k on k.id = s.key_id
where s.hash = :hash and s.expires_at > :now and k.revoked_at is null and (k.expires_at is null or k.expires_at > :now);

-- list_sessions: sessions that have not ended: of a key, of a tenant, of all
select s.id, s.key_id, k.name as key_name, k.role, t.name as tenant, s.address, s.agent,
    s.created_at, s.last_seen_at, s.expires_at, s.ends_at
from sessions s join api_keys k on k.id = s.key_id left join tenants t on t.id = k.tenant_id
where (:key_id is null or s.key_id = :key_id) and (:tenant_id is null or k.tenant_id = :tenant_id) and s.id < :before
    and s.expires_at > :now and k.revoked_at is null and (k.expires_at is null or k.expires_at > :now)
order by s.id desc limit :limit;

-- find_session: one of them
select s.id, s.key_id, k.name as key_name, k.role, t.name as tenant, s.address, s.agent,
    s.created_at, s.last_seen_at, s.expires_at, s.ends_at
from sessions s join api_keys k on k.id = s.key_id left join tenants t on t.id = k.tenant_id
where (:key_id is null or s.key_id = :key_id) and (:tenant_id is null or k.tenant_id = :tenant_id) and s.id = :id
    and s.expires_at > :now and k.revoked_at is null and (k.expires_at is null or k.expires_at > :now);

-- touch_sessions: note that a session was used, unless that was noted lately
update sessions set last_seen_at = :now, expires_at = min(ends_at, :now + :idle)
where id = :id and expires_at > :now and last_seen_at < :now - 60000000;

-- end_session: remove a session
delete from sessions where id = :id;

-- end_session_of: remove the session whose token has this hash
delete from sessions where hash = :hash;

-- add_login_link: add a link that begins one session
insert into login_links (hash, key_id, expires_at) values (:hash, :key_id, :now + :lasts) returning expires_at;

-- drop_surplus_links: remove the oldest links of a key beyond so many
delete from login_links where hash in (
    select hash from login_links where key_id = :key_id order by expires_at desc, hash desc limit -1 offset :most);

-- login_link: the key of a link, if both may be used
select k.id, k.tenant_id, k.role, k.name, k.hint, k.queues, k.created_at, k.expires_at, k.revoked_at, k.last_used_at,
    k.networks
from login_links l join api_keys k on k.id = l.key_id
where l.hash = :hash and l.expires_at > :now and k.revoked_at is null and (k.expires_at is null or k.expires_at > :now);

-- take_login_link: remove a link
delete from login_links where hash = :hash;

-- prune_sessions: remove sessions that are over
delete from sessions where id in (
    select id from sessions where expires_at < :before order by expires_at limit :batch);

-- prune_login_links: remove links that were not used in time
delete from login_links where hash in (
    select hash from login_links where expires_at < :before order by expires_at limit :batch);
