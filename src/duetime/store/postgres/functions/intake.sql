-- Submitting inside the caller's transaction.

-- The problem with the limits that a job names; null: none.
create or replace function duetime.limits_problem(options json) returns text language sql immutable
set search_path = pg_catalog, pg_temp as $$
    select case
        when exists (
            select 1 from unnest(array['concurrency_key', 'rate_key', 'breaker_key']) as k(name)
            where json_typeof(options -> k.name) not in ('string', 'null')
                or options ->> k.name !~ '^[^[:cntrl:]]{1,255}$')
            then 'options: a key has 1 to 255 printable characters'
        when options ->> 'concurrency' !~ '^[0-9]{1,7}$'
            or (options ->> 'concurrency')::integer not between 1 and 1000000
            then 'options: concurrency must be 1 to 1,000,000'
        when options ->> 'rate' !~ '^[0-9]{1,7}/[0-9]{0,5}[smhd]$'
            or split_part(options ->> 'rate', '/', 1)::integer not between 1 and 1000000
            or coalesce(substring(options ->> 'rate' from '/([0-9]+)'), '1')::bigint
                * case right(options ->> 'rate', 1) when 's' then 1 when 'm' then 60 when 'h' then 3600 else 86400 end
                not between 1 and 604800
            then 'options: rate must be such as 100/m, 5/s or 10/30s; at most 7 days'
    end $$;

-- Refuse one more job, with so many bytes of arguments, of a tenant at its quota. It counts each time, unlike the
-- estimates of `engine/quota.py`: a caller's transaction shares no memory with a node.
create or replace function duetime.check_stored(tenant integer, bytes bigint) returns void language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
as $$
declare
    most record;
begin
    select t.stored_jobs as jobs, (t.quotas ->> 'stored_bytes')::bigint as bytes into most
    from duetime.tenants t where t.id = tenant;
    if most.jobs <= (select count(*) from (
            select 1 from duetime.jobs j where j.tenant_id = tenant and j.state < JobState.ENDED limit most.jobs) j)
        + (select count(*) from (select 1 from duetime.runs r where r.tenant_id = tenant limit most.jobs) r)
    then
        raise exception using errcode = 'DT507', message = 'duetime quota stored_jobs', detail = most.jobs::text;
    end if;
    if most.bytes is not null and most.bytes < bytes
        + (select coalesce(sum(octet_length(j.args)), 0) from duetime.jobs j
            where j.tenant_id = tenant and j.state < JobState.ENDED)
        + (select coalesce(sum(octet_length(r.args)), 0) from duetime.runs r where r.tenant_id = tenant)
    then
        raise exception using errcode = 'DT507', message = 'duetime quota stored_bytes', detail = most.bytes::text;
    end if;
end $$;

-- Submit on the caller's own connection and role. The job always goes through `jobs` (a scanner finds it after the
-- commit), and never waits for a lane or sends a notification. Any role may be granted this function, so it validates
-- everything again.
create or replace function duetime.submit_job(
    job_id uuid, tenant_id integer, task text, queue text, tier smallint, due_at timestamptz,
    delay interval, args bytea, options bytea, timeout_ms integer,
    idempotency_key text default null, fingerprint bytea default '',
    label_kinds text[] default '{}', label_values text[] default '{}', payload_id uuid default null,
    most_lanes integer default 10000
) returns uuid language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    known duetime.keys;
    limits_problem text;
    fire_at timestamptz := greatest(coalesce(due_at, duetime.clock() + coalesce(delay, interval '0')), duetime.clock());
    name constant text := '^[A-Za-z0-9_][A-Za-z0-9_.:/@-]{0,199}$';
    problem constant text := case
        when job_id is null or substr(job_id::text, 15, 1) <> '7' or job_id::text >= 'e677d21f-dc00'
            then 'job_id: must be a UUID of version 7'
        when tenant_id is null or not exists (select 1 from duetime.tenants t where t.id = submit_job.tenant_id)
            then 'tenant_id: there is no such tenant'
        when exists (select 1 from duetime.tenants t where t.id = submit_job.tenant_id and t.encrypt_args)
            then 'connection: the arguments of this tenant are encrypted, and the database has no key: omit it'
        when task is null or task !~ name then 'task: is not a name'
        when queue is null or queue !~ name then 'queue: is not a name'
        when tier is null or tier not between Tier.HIGH and Tier.LOW then 'tier: must be 0, 1 or 2'
        when not isfinite(fire_at) or fire_at >= '9999-12-31Z' then 'due_at: is too far in the future'
        when args is null or octet_length(args) > 67108864 then 'args: must be a JSON object of at most 64 MiB'
        when octet_length(options) > 65536 then 'options: must be a JSON object of at most 64 KiB'
        when timeout_ms not between 1 and 604800000 then 'timeout_ms: must be more than 0 and at most 7 days'
        when idempotency_key !~ '^[^[:cntrl:]]{1,255}$' then 'idempotency_key: 1 to 255 printable characters'
        when label_kinds is null or label_values is null or cardinality(label_kinds) <> cardinality(label_values)
            or cardinality(label_kinds) > 100 or exists (
                select 1 from unnest(label_kinds, label_values) as l(kind, value)
                where l.kind is null or l.kind not in ('o', 'n', 't', 'k') or l.value is null or length(l.value) > 255)
            then 'label_kinds: at most 100, each with a value'
        when fingerprint is null or octet_length(fingerprint) > 64 then 'fingerprint: at most 64 bytes'
    end;
begin
    if problem is not null then
        raise exception using errcode = 'DT400', message = problem;
    end if;
    -- The cast itself refuses text that is not JSON.
    if json_typeof(convert_from(args, 'UTF8')::json) <> 'object' then
        raise exception using errcode = 'DT400', message = 'args: must be a JSON object';
    end if;
    if json_typeof(convert_from(options, 'UTF8')::json) <> 'object' then
        raise exception using errcode = 'DT400', message = 'options: must be a JSON object, or null';
    end if;
    limits_problem := duetime.limits_problem(convert_from(options, 'UTF8')::json);
    if limits_problem is not null then
        raise exception using errcode = 'DT400', message = limits_problem;
    end if;
    perform duetime.refuse_submission(t.state)
    from duetime.tenants t where t.id = submit_job.tenant_id and t.state <> TenantState.ACTIVE;
    perform duetime.check_stored(submit_job.tenant_id, octet_length(args));
    -- The scanner creates the lane. Until then a row counts it as requested, so that no caller waits for another one
    -- here.
    if (select 1 from duetime.lanes l where l.tenant_id = submit_job.tenant_id and l.queue = submit_job.queue
            and l.tier = submit_job.tier and l.task = submit_job.task limit 1) is null
        and (select 1 from duetime.lane_requests q where q.tenant_id = submit_job.tenant_id
            and q.queue = submit_job.queue and q.tier = submit_job.tier and q.task = submit_job.task limit 1) is null
    then
        perform duetime.check_queues(submit_job.tenant_id, array[submit_job.queue], false);
        if duetime.lanes_used(submit_job.tenant_id, most_lanes) >= most_lanes then
            raise exception using errcode = 'DT429', message = format(
                'the tenant has used all of its %s lanes within a day: a lane is a queue, a priority and a'
                ' task, or the host of a call', most_lanes);
        end if;
        insert into duetime.lane_requests (tenant_id, queue, tier, task, at)
            values (submit_job.tenant_id, submit_job.queue, submit_job.tier, submit_job.task, duetime.clock());
    end if;
    if idempotency_key is not null then
        if not pg_try_advisory_xact_lock(hashtextextended('duetime i ' || tenant_id || ' ' || idempotency_key, 0)) then
            raise exception using errcode = 'DT409', message = 'another request holds this idempotency key';
        end if;
        select * into known from duetime.keys k
            where k.tenant_id = submit_job.tenant_id and k.kind = 'i' and k.key = idempotency_key;
        if found then
            if known.fingerprint <> submit_job.fingerprint then
                raise exception using errcode = 'DT422', message = 'this idempotency key was used for another request';
            end if;
            return known.job_id;
        end if;
        insert into duetime.keys (tenant_id, kind, key, job_id, fingerprint, next_run, created_at)
            values (submit_job.tenant_id, 'i', idempotency_key, submit_job.job_id, submit_job.fingerprint, fire_at,
                    duetime.clock());
    end if;
    insert into duetime.jobs (id, tenant_id, task, queue, tier, schedule, recurring, args, options, timeout_ms, created_at)
        values (submit_job.job_id, submit_job.tenant_id, submit_job.task, submit_job.queue, submit_job.tier,
                convert_to(json_build_object('type', 'once', 'at',
                    to_char(fire_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text, 'UTF8'),
                false, submit_job.args, submit_job.options, submit_job.timeout_ms, duetime.clock());
    insert into duetime.cursors (job_id, scan_at, next_fire_at)
        values (submit_job.job_id, greatest(fire_at - interval '15 seconds', duetime.clock()), fire_at);
    insert into duetime.labels (tenant_id, kind, value, job_id)
        select submit_job.tenant_id, l.kind::"char", l.value, submit_job.job_id
        from unnest(label_kinds, label_values) as l(kind, value) on conflict do nothing;
    if submit_job.payload_id is not null then
        insert into duetime.payload_refs (payload_id, job_id, tenant_id)
            values (submit_job.payload_id, submit_job.job_id, submit_job.tenant_id) on conflict do nothing;
    end if;
    insert into duetime.events (at, kind, tenant_id, ids)
        select duetime.now(), EventKind.SUBMITTED, submit_job.tenant_id, array[submit_job.job_id] from duetime.listening l
        where l.one and l.until > duetime.now();
    return submit_job.job_id;
end $$;
revoke execute on function duetime.submit_job from public;

-- The default options of a tenant's jobs, for callers of `submit_job`: they resolve the options of a job.
create or replace function duetime.tenant_defaults(tenant integer) returns bytea language sql stable security definer
    set search_path = pg_catalog, pg_temp
    as $$ select t.defaults from duetime.tenants t where t.id = tenant $$;
revoke execute on function duetime.tenant_defaults from public;
