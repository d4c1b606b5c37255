-- usable_key: hold a key against being revoked, if it may be used
select id from duetime.api_keys
where id = $1 and revoked_at is null and (expires_at is null or expires_at > duetime.now()) for update;

-- begin_session: add a session
insert into duetime.sessions (id, key_id, hash, address, agent, created_at, last_seen_at, expires_at, ends_at)
select $1, $2, $3, $4, $5, now, now, now + least($6::interval, $7::interval), now + $6::interval from duetime.now() as now;

-- end_surplus_sessions: end the oldest sessions of a key beyond so many, and remove those that are over
delete from duetime.sessions where key_id = $1 and (expires_at <= duetime.now() or id in (
    select s.id from duetime.sessions s where s.key_id = $1 and s.expires_at > duetime.now()
    order by s.created_at desc, s.id desc offset $2));

-- session_of: the session whose token has this hash, and its key, if both may be used
select s.id as session_id, k.id, k.tenant_id, k.role, k.name, k.hint, k.queues, k.created_at, k.expires_at, k.revoked_at, k.last_used_at,
    k.networks
from duetime.sessions s join duetime.api_keys k on k.id = s.key_id
where s.hash = $1 and s.expires_at > duetime.now()
    and k.revoked_at is null and (k.expires_at is null or k.expires_at > duetime.now());

-- list_sessions: sessions that have not ended: of a key, of a tenant, of all
select s.id, s.key_id, k.name as key_name, k.role, t.name as tenant, s.address, s.agent,
    s.created_at, s.last_seen_at, s.expires_at, s.ends_at
from duetime.sessions s join duetime.api_keys k on k.id = s.key_id left join duetime.tenants t on t.id = k.tenant_id
where ($1::uuid is null or s.key_id = $1) and ($2::int is null or k.tenant_id = $2) and s.id < $3
    and s.expires_at > duetime.now()
    and k.revoked_at is null and (k.expires_at is null or k.expires_at > duetime.now())
order by s.id desc limit $4;

-- find_session: one of them
select s.id, s.key_id, k.name as key_name, k.role, t.name as tenant, s.address, s.agent,
    s.created_at, s.last_seen_at, s.expires_at, s.ends_at
from duetime.sessions s join duetime.api_keys k on k.id = s.key_id left join duetime.tenants t on t.id = k.tenant_id
where ($1::uuid is null or s.key_id = $1) and ($2::int is null or k.tenant_id = $2) and s.id = $3
    and s.expires_at > duetime.now()
    and k.revoked_at is null and (k.expires_at is null or k.expires_at > duetime.now());

-- touch_sessions: note that sessions were used, unless that was noted lately
update duetime.sessions set last_seen_at = duetime.now(), expires_at = least(ends_at, duetime.now() + $2::interval)
where id = any($1::uuid[]) and expires_at > duetime.now() and last_seen_at < duetime.now() - interval '1 minute';

-- end_session: remove a session
delete from duetime.sessions where id = $1;

-- end_session_of: remove the session whose token has this hash
delete from duetime.sessions where hash = $1;

-- add_login_link: add a link that begins one session
insert into duetime.login_links (hash, key_id, expires_at) values ($1, $2, duetime.now() + $3::interval)
returning expires_at;

-- drop_surplus_links: remove the oldest links of a key beyond so many
delete from duetime.login_links where hash in (
    select hash from duetime.login_links where key_id = $1 order by expires_at desc, hash desc offset $2);

-- take_login_link: remove a link; its key, if both may be used
with taken as (delete from duetime.login_links where hash = $1 returning key_id, expires_at)
select k.id, k.tenant_id, k.role, k.name, k.hint, k.queues, k.created_at, k.expires_at, k.revoked_at, k.last_used_at,
    k.networks
from taken t join duetime.api_keys k on k.id = t.key_id
where t.expires_at > duetime.now() and k.revoked_at is null and (k.expires_at is null or k.expires_at > duetime.now());

-- prune_sessions: remove sessions that are over
delete from duetime.sessions where id in (
    select id from duetime.sessions where expires_at < $1::timestamptz order by expires_at limit $2
    for update skip locked);

-- prune_login_links: remove links that were not used in time
delete from duetime.login_links where hash in (
    select hash from duetime.login_links where expires_at < $1::timestamptz order by expires_at limit $2
    for update skip locked);
