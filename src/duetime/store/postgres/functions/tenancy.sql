-- The tenant of a transaction, and its quotas.

create or replace function duetime.current_tenant() returns integer language sql stable parallel safe
    as $$ select nullif(current_setting('duetime.tenant', true), '')::integer $$;

-- A tenant's usage of a quota, by the name of the limit (store/rules/quotas.py).
create or replace function duetime.usage(tenant integer, kind text) returns bigint language plpgsql
set enable_seqscan = off set jit = off
as $$
begin
    return case kind
        when 'payloads' then (select count(*) from duetime.payloads p where p.tenant_id = tenant)
        when 'payload_bytes' then (select coalesce(sum(p.size), 0) from duetime.payloads p where p.tenant_id = tenant)
        when 'calendars' then (select count(*) from duetime.calendars c where c.tenant_id = tenant)
        when 'queues' then (
            select count(distinct q.name) from duetime.queue_names q
            where q.tenant_id = tenant and (q.seen_at is null or q.seen_at > duetime.now() - interval '1 day'))
        when 'subscriptions' then (select count(*) from duetime.subscriptions s where s.tenant_id = tenant)
        when 'sources' then (select count(*) from duetime.sources s where s.tenant_id = tenant)
        when 'issuers' then (select count(*) from duetime.issuers i where i.tenant_id = tenant)
        when 'bulk_actions' then (
            select count(*) from duetime.bulk_actions b where b.tenant_id = tenant and b.finished_at is null)
        when 'alerts' then (select count(*) from duetime.alerts a where a.tenant_id = tenant)
        when 'checkins' then (select count(*) from duetime.checkins c where c.tenant_id = tenant)
        when 'secrets' then (select count(*) from duetime.tenant_secrets s where s.tenant_id = tenant)
        when 'signing_secrets' then (
            select count(*) from duetime.signing_secrets s
            where s.tenant_id = tenant and (s.expires_at is null or s.expires_at > duetime.now()))
        when 'api_keys' then (
            select count(*) from duetime.api_keys k where coalesce(k.tenant_id, 0) = tenant
                and k.revoked_at is null and (k.expires_at is null or k.expires_at > duetime.now()))
        when 'workers' then (
            select count(*) from duetime.workers w where w.tenant_id = tenant and w.lease_until > duetime.now())
        when 'worker_tasks' then (
            select coalesce(sum(cardinality(w.tasks)), 0) from duetime.workers w
            where w.tenant_id = tenant and w.lease_until > duetime.now())
        when 'tasks' then (select count(*) from duetime.tasks t where coalesce(t.tenant_id, -1) = tenant)
    end;
end $$;

-- Keep the newest past workers of each tenant.
create or replace function duetime.keep_newest_workers() returns trigger language plpgsql
as $$
begin
    delete from duetime.past_workers where id in (
        select o.id from (select distinct coalesce(tenant_id, -1) as tenant from added) a cross join lateral (
            select p.id from duetime.past_workers p where coalesce(p.tenant_id, -1) = a.tenant
            order by p.ended_at desc, p.id desc offset 100 for update skip locked) o);
    return null;
end $$;

-- Refuse the rows of a statement if the tenant would exceed its quota.
create or replace function duetime.check_quota(tenant integer, kind text) returns void language plpgsql
as $$
declare
    most constant bigint := (select (t.quotas ->> kind)::bigint from duetime.tenants t where t.id = tenant);
begin
    -- Far from the limit no transaction waits: fewer transactions than this run at once.
    if most is null or kind <> 'payload_bytes' and duetime.usage(tenant, kind) + 1000 <= most then
        return;
    end if;
    -- One transaction at a time. The next one counts after this one has committed, in a separate statement.
    perform pg_advisory_xact_lock(hashtextextended('duetime quota ' || tenant || ' ' || kind, 0));
    if duetime.usage(tenant, kind) > most then
        raise exception using errcode = 'DT507', message = 'duetime quota ' || kind, detail = most::text;
    end if;
end $$;

create or replace function duetime.keep_quotas() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    tenant integer;
    kind text;
begin
    for tenant in select distinct a.tenant_id from added a where a.tenant_id is not null loop
        foreach kind in array tg_argv loop
            perform duetime.check_quota(tenant, kind);
        end loop;
    end loop;
    return null;
end $$;
revoke execute on function duetime.keep_quotas from public;

-- Refuse new queues beyond a tenant's limit; existing queues are never refused. A caller's transaction must not hold
-- the lock, because the fleet would wait for it: so a few such transactions may exceed the limit together.
create or replace function duetime.check_queues(tenant integer, names text[], exactly boolean) returns void language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
as $$
declare
    most constant bigint := (select (t.quotas ->> 'queues')::bigint from duetime.tenants t where t.id = tenant);
    fresh bigint;
begin
    if most is null then
        return;
    end if;
    if exactly then
        perform pg_advisory_xact_lock(hashtextextended('duetime quota ' || tenant || ' queues', 0));
    end if;
    select count(distinct n.name) into fresh from unnest(names) as n(name)
    where n.name <> 'duetime.notifications' and (
        select 1 from duetime.queue_names q where q.tenant_id = tenant and q.name = n.name limit 1) is null;
    if fresh > 0 and duetime.usage(tenant, 'queues') + fresh > most then
        raise exception using errcode = 'DT507', message = 'duetime quota queues', detail = most::text;
    end if;
end $$;

create or replace function duetime.keep_queues() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform duetime.check_queues(new.tenant_id, array[new.name collate "default"], true);
    return new;
end $$;
revoke execute on function duetime.keep_queues from public;

-- Whether a queue of the tenant that the transaction acts for goes through a stream. The tenant's role may not read where.
create or replace function duetime.is_streamed(queue text) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (
        select 1 from duetime.stream_queues s
        where s.tenant_id = duetime.current_tenant() and s.queue = is_streamed.queue and s.current);
end $$;
revoke execute on function duetime.is_streamed from public;
grant execute on function duetime.is_streamed to duetime_tenant;

create or replace function duetime.keep_stream_queues() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform duetime.check_queues(new.tenant_id, array[new.queue], true);
    return new;
end $$;
revoke execute on function duetime.keep_stream_queues from public;
