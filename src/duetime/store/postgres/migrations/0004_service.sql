-- The service around the homes: tenants, keys, lists, queues, payloads, events; and row-level security behind it all.

alter table duetime.tenants
    add column state smallint not null default 0,
    add column tier text not null default 'standard',
    add column weight integer not null default 100,
    add column stored_jobs bigint,
    add column running_runs integer,
    add column submissions_per_second double precision,
    add column fires_per_second double precision,
    add column quotas jsonb, -- the other limits by name (store/rules/quotas.py); a name that is missing: no limit
    add column encrypt_args boolean not null default false;

-- What all nodes must agree on and nobody else may know.
create table duetime.secrets (
    name text primary key,
    value bytea not null
);

-- Keys that encrypt, wrapped by a key provider: `crypto/envelope.py`.
create table duetime.data_keys (
    name text primary key,
    wrapped_by text not null,
    wrapped bytea not null,
    created_at timestamptz not null
);

create table duetime.api_keys (
    id uuid primary key,
    tenant_id integer, -- null: a root key
    role smallint not null,
    name text not null,
    hash bytea not null unique,
    hint text not null,
    queues text[] not null,
    networks text[] not null, -- none: from everywhere
    created_at timestamptz not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz
) with (fillfactor = 80);
create index api_keys_of_tenant on duetime.api_keys (coalesce(tenant_id, 0), id);

-- Browsers. Of a token only the hash is here, so these rows are not enough to log in.
create table duetime.sessions (
    id uuid primary key,
    key_id uuid not null,
    hash bytea not null unique,
    address text not null,
    agent text not null,
    created_at timestamptz not null,
    last_seen_at timestamptz not null,
    expires_at timestamptz not null, -- moves on with use, up to ends_at
    ends_at timestamptz not null
);
create index sessions_of_key on duetime.sessions (key_id, created_at);
create index sessions_by_end on duetime.sessions (expires_at);
create table duetime.login_links (
    hash bytea primary key,
    key_id uuid not null,
    expires_at timestamptz not null
);
create index login_links_of_key on duetime.login_links (key_id, expires_at);
create index login_links_by_end on duetime.login_links (expires_at);

create table duetime.audit (
    id uuid primary key,
    at timestamptz not null,
    tenant_id integer,
    key_id uuid,
    actor text not null,
    action text not null,
    object text not null,
    detail text
);
create index audit_of_tenant on duetime.audit (tenant_id, id);
create function duetime.refuse_to_rewrite() returns trigger language plpgsql as $$
begin
    raise exception 'the audit log is only added to';
end $$;
create trigger audit_is_append_only before update or delete on duetime.audit
    for each row execute function duetime.refuse_to_rewrite();

-- What jobs are found by beside their id: owner, name, tags, key. Written with the job, for what is given only.
create table duetime.labels (
    tenant_id integer not null,
    kind "char" not null, -- 'o' owner, 'n' name, 't' tag, 'k' key
    value text not null,
    job_id uuid not null,
    primary key (tenant_id, kind, value, job_id)
);
create index labels_of_job on duetime.labels (job_id);

-- Jobs that are not to be seen any more, while their runs stay in history.
create table duetime.deleted_jobs (
    job_id uuid primary key,
    tenant_id integer not null,
    deleted_at timestamptz not null
);
create index deleted_jobs_by_age on duetime.deleted_jobs (deleted_at);

-- The ends that are looked for and that are rare. Succeeding writes to neither.
create index history_ends_of_jobs on duetime.history (tenant_id, end_state, job_id, run_id)
    where end_state is not null and end_state <> 4;
create index history_ends_of_runs on duetime.history (tenant_id, end_state, run_id)
    where end_state is not null and end_state <> 4;
create index dead_letters_of_job on duetime.dead_letters (job_id);

-- Queues that somebody has steered; the others exist by having lanes.
create table duetime.queues (
    tenant_id integer not null,
    name text not null,
    paused_at timestamptz,
    primary key (tenant_id, name)
);

alter table duetime.workers add column tenant_id integer; -- null: works for all

-- Bytes that jobs refer to. Encrypted above the store, so compressing them is of no use.
create table duetime.payloads (
    id uuid primary key,
    tenant_id integer not null,
    created_at timestamptz not null,
    body bytea not null,
    size bigint not null generated always as (octet_length(body)) stored
);
alter table duetime.payloads alter column body set storage external;
create index payloads_of_tenant on duetime.payloads (tenant_id) include (size);
create table duetime.payload_refs (
    payload_id uuid not null,
    job_id uuid not null,
    tenant_id integer not null,
    primary key (payload_id, job_id)
);

-- How much a tenant has of what is bounded by a quota, by the name of the limit (store/rules/quotas.py).
create function duetime.usage(tenant integer, kind text) returns bigint language plpgsql
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
        when 'alerts' then (select count(*) from duetime.alerts a where a.tenant_id = tenant)
        when 'secrets' then (select count(*) from duetime.tenant_secrets s where s.tenant_id = tenant)
        when 'signing_secrets' then (
            select count(*) from duetime.signing_secrets s
            where s.tenant_id = tenant and (s.expires_at is null or s.expires_at > duetime.now()))
        when 'api_keys' then (
            select count(*) from duetime.api_keys k where coalesce(k.tenant_id, 0) = tenant
                and k.revoked_at is null and (k.expires_at is null or k.expires_at > duetime.now()))
        when 'workers' then (
            select count(*) from duetime.workers w where w.tenant_id = tenant and w.lease_until > duetime.now())
        when 'tasks' then (select count(*) from duetime.tasks t where coalesce(t.tenant_id, -1) = tenant)
    end;
end $$;

-- Refuse what a statement has added if a tenant has more than it may have then.
create function duetime.check_quota(tenant integer, kind text) returns void language plpgsql
as $$
declare
    most constant bigint := (select (t.quotas ->> kind)::bigint from duetime.tenants t where t.id = tenant);
begin
    -- Far from a limit on rows no transaction waits: fewer transactions than this are under way at once.
    if most is null or kind <> 'payload_bytes' and duetime.usage(tenant, kind) + 1000 <= most then
        return;
    end if;
    -- One transaction at a time. The next one counts after this one has committed, in a statement of its own.
    perform pg_advisory_xact_lock(hashtextextended('duetime quota ' || tenant || ' ' || kind, 0));
    if duetime.usage(tenant, kind) > most then
        raise exception using errcode = 'DT507', message = 'duetime quota ' || kind, detail = most::text;
    end if;
end $$;
create function duetime.keep_quotas() returns trigger
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
create trigger within_quotas after insert on duetime.payloads referencing new table as added
    for each statement execute function duetime.keep_quotas('payloads', 'payload_bytes');
create trigger within_quotas after insert on duetime.calendars referencing new table as added
    for each statement execute function duetime.keep_quotas('calendars');
create trigger within_quotas after insert on duetime.api_keys referencing new table as added
    for each statement execute function duetime.keep_quotas('api_keys');
create trigger within_quotas after insert on duetime.workers referencing new table as added
    for each statement execute function duetime.keep_quotas('workers');

-- What changed: a row per batch, tenant and kind. Written only while `listening` says that a reader exists.
create table duetime.events (
    xid xid8 not null default pg_current_xact_id(),
    id bigint generated always as identity,
    at timestamptz not null,
    kind smallint not null,
    tenant_id integer not null,
    ids uuid[] not null,
    place bigint, -- in the stream; null until a reader has found the row committed
    placed_at timestamptz,
    primary key (xid, id)
);
create unique index events_in_order on duetime.events (place) where place is not null;
create index events_by_age on duetime.events (placed_at) where placed_at is not null;
-- The last place that was given, and what was committed by then.
create table duetime.event_places (
    one boolean primary key default true check (one),
    last bigint not null,
    seen pg_snapshot not null
) with (fillfactor = 50);
insert into duetime.event_places (last, seen) values (0, pg_current_snapshot());
create table duetime.listening (
    one boolean primary key default true check (one),
    until timestamptz not null
);
insert into duetime.listening (until) values ('-infinity');

-- Committed events that have no place, of the transactions that a snapshot did not see: those that were under way then, and
-- those that began later. A snapshot from the future is of another cluster, whose rows were restored here.
create function duetime.unplaced_events(seen pg_snapshot, most integer) returns table (xid xid8, id bigint)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    since constant xid8 := case when pg_snapshot_xmax(seen) <= pg_snapshot_xmax(pg_current_snapshot())
        then pg_snapshot_xmax(seen) else '0' end;
    under_way constant xid8[] := array(select pg_snapshot_xip(seen));
begin
    return query
    select e.xid, e.id from duetime.events e where e.xid >= since and e.place is null
    union all
    select e.xid, e.id from duetime.events e where e.xid = any(under_way) and e.xid < since and e.place is null
    order by id limit most;
end $$;

-- Give places to events that were committed since the last call; returns the last place. Writers take no lock and wait for
-- no reader. An event gets its place when it can be seen, so one that commits late comes after what was read meanwhile,
-- and a transaction that stays open holds back nothing but its own events.
create function duetime.place_events(most integer) returns bigint language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    line duetime.event_places;
    before bigint;
    here pg_snapshot;
    placed bigint;
begin
    select p.* into line from duetime.event_places p where p.one;
    if not exists (select 1 from duetime.unplaced_events(line.seen, 1)) then
        return line.last;
    end if;
    before := line.last;
    -- One call after the other: what one has placed is committed before the next places more.
    select p.* into line from duetime.event_places p where p.one for update skip locked;
    if not found then
        return before;
    end if;
    before := greatest(line.last, (extract(epoch from duetime.clock()) * 1000000)::bigint); -- no rewind repeats a place
    with fresh as materialized (
        select e.xid, e.id, row_number() over (order by e.id) as nth from duetime.unplaced_events(line.seen, most) e
    ),
    given as (
        update duetime.events e set place = before + f.nth, placed_at = duetime.clock()
        from fresh f where e.xid = f.xid and e.id = f.id returning 1
    )
    select pg_current_snapshot(), count(*) into here, placed from given;
    update duetime.event_places p
    set last = before + placed, seen = case when placed < most then here else line.seen end where p.one;
    return before + placed;
end $$;

-- Events after a place, in the order of their places.
create function duetime.read_events(after bigint, most integer)
returns table (place bigint, at timestamptz, kind smallint, tenant_id integer, ids uuid[]) language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    perform duetime.place_events(10000);
    return query
    select e.place, e.at, e.kind, e.tenant_id, e.ids from duetime.events e
    where e.place > read_events.after order by e.place limit read_events.most;
end $$;

-- Lease ready runs of each lane to a worker, without touching any index.
create function duetime.claim(
    lanes integer[], takes integer[], marks timestamptz[], worker uuid, number bigint)
returns table (
    id uuid, job_id uuid, lane_id integer, fence integer, attempt smallint, lost smallint, due_at timestamptz,
    ready_at timestamptz, started_at timestamptz, args bytea, options bytea, timeout_ms integer, checkpoint bytea)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    with open as materialized (
        select l.lane, l.take, l.mark, n.tenant_id
        from duetime.workers w cross join unnest(claim.lanes, claim.takes, claim.marks) as l(lane, take, mark)
        join duetime.lanes n on n.id = l.lane
        where w.id = claim.worker and w.lease_until > duetime.now() and (w.tenant_id is null
            or n.tenant_id = w.tenant_id and (cardinality(w.queues) = 0 or n.queue = any(w.queues)))
    ),
    picked as materialized (
        select r.place from open l cross join lateral (
            select r.ctid as place from duetime.runs r
            where r.lane_id = l.lane and r.ready_at >= l.mark and r.ready_at <= duetime.now() and r.worker_id is null
                and r.tenant_id is not distinct from l.tenant_id
            order by r.ready_at, r.id limit l.take for update skip locked
        ) r
    ),
    taken as (
        update duetime.runs r
        set worker_id = claim.worker, claim_no = claim.number, fence = r.fence + 1, attempt = r.attempt + 1,
            started_at = duetime.now(), progress = null, message = null
        where r.ctid = any(array(select place from picked))
        returning r.id, r.job_id, r.lane_id, r.fence, r.attempt, r.lost, r.due_at, r.ready_at, r.started_at, r.args,
            r.options, r.timeout_ms, r.checkpoint
    ),
    noted as (
        insert into duetime.claims (worker_id, claim_no, claimed_at, deadline, run_ids)
        select claim.worker, claim.number, duetime.now(),
            min(t.started_at + t.timeout_ms * interval '1 millisecond'), array_agg(t.id)
        from taken t having count(*) > 0
    ),
    told as (
        insert into duetime.events (at, kind, tenant_id, ids)
        select duetime.now(), 3, l.tenant_id, array_agg(t.id) from taken t join duetime.lanes l on l.id = t.lane_id
        where (select l.until > duetime.now() from duetime.listening l where l.one) group by l.tenant_id
    )
    select * from taken;
end $$;

-- Whether a worker that is bound to a tenant, and perhaps to queues, may take from a lane.
create function duetime.is_served(lane integer, tenant integer, queues text[]) returns boolean
language plpgsql stable set enable_seqscan = off set jit = off as $$
begin
    return exists (
        select 1 from duetime.lanes l where l.id = is_served.lane and l.tenant_id = is_served.tenant
            and (cardinality(is_served.queues) = 0 or l.queue = any(is_served.queues)));
end $$;

-- Lease ready runs of each lane and deal them to workers in order, each as many as it has room for.
create function duetime.claim_many(lanes integer[], takes integer[], marks timestamptz[], workers uuid[],
    numbers bigint[], rooms integer[])
returns table (
    worker_id uuid, id uuid, job_id uuid, lane_id integer, fence integer, attempt smallint, lost smallint,
    due_at timestamptz, ready_at timestamptz, started_at timestamptz, args bytea, options bytea, timeout_ms integer,
    checkpoint bytea)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    seat record;
    seats uuid[] := '{}'; -- for each run in turn, whom it goes to
    seat_numbers bigint[] := '{}';
    allowed boolean[] := array_fill(true, array[coalesce(cardinality(lanes), 0)]);
begin
    for seat in
        select w.id, s.number, s.room, w.tenant_id, w.queues
        from unnest(claim_many.workers, claim_many.numbers, claim_many.rooms) as s(worker, number, room)
        join duetime.workers w on w.id = s.worker and w.lease_until > duetime.now()
        where not exists (select 1 from duetime.claims c where c.worker_id = s.worker and c.claim_no = s.number)
    loop
        seats := seats || array_fill(seat.id, array[seat.room]);
        seat_numbers := seat_numbers || array_fill(seat.number, array[seat.room]);
        if seat.tenant_id is not null then
            for place in 1 .. cardinality(lanes) loop
                allowed[place] := allowed[place] and duetime.is_served(lanes[place], seat.tenant_id, seat.queues);
            end loop;
        end if;
    end loop;
    return query
    with picked as materialized (
        select r.place, row_number() over () as seat
        from unnest(claim_many.lanes, claim_many.takes, claim_many.marks, allowed) as l(lane, take, mark, allowed)
        join duetime.lanes n on n.id = l.lane cross join lateral (
            select r.ctid as place from duetime.runs r
            where r.lane_id = l.lane and r.ready_at >= l.mark and r.ready_at <= duetime.now() and r.worker_id is null
                and r.tenant_id is not distinct from n.tenant_id
            order by r.ready_at, r.id limit l.take for update skip locked
        ) r
        where l.allowed limit cardinality(seats)
    ),
    taken as (
        update duetime.runs r
        set worker_id = seats[p.seat], claim_no = seat_numbers[p.seat], fence = r.fence + 1, attempt = r.attempt + 1,
            started_at = duetime.now(), progress = null, message = null
        from picked p where r.ctid = p.place
        returning r.worker_id, r.claim_no, r.id, r.job_id, r.lane_id, r.fence, r.attempt, r.lost, r.due_at, r.ready_at,
            r.started_at, r.args, r.options, r.timeout_ms, r.checkpoint, r.tenant_id
    ),
    noted as (
        insert into duetime.claims (worker_id, claim_no, claimed_at, deadline, run_ids)
        select t.worker_id, t.claim_no, duetime.now(),
            min(t.started_at + t.timeout_ms * interval '1 millisecond'), array_agg(t.id)
        from taken t group by t.worker_id, t.claim_no
    ),
    told as (
        insert into duetime.events (at, kind, tenant_id, ids)
        select duetime.now(), 3, t.tenant_id, array_agg(t.id) from taken t
        where (select l.until > duetime.now() from duetime.listening l where l.one) group by t.tenant_id
    )
    select t.worker_id, t.id, t.job_id, t.lane_id, t.fence, t.attempt, t.lost, t.due_at, t.ready_at, t.started_at,
        t.args, t.options, t.timeout_ms, t.checkpoint
    from taken t;
end $$;

-- What is wrong with the limits that a job names; null: nothing.
create function duetime.limits_problem(options json) returns text language sql immutable
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

-- Refuse one more job, with so many bytes of arguments, of a tenant that has as much as it may have. It counts each time,
-- unlike the estimates of `engine/quota.py`: a caller inside its own transaction shares no memory with a node.
create function duetime.check_stored(tenant integer, bytes bigint) returns void language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
as $$
declare
    most record;
begin
    select t.stored_jobs as jobs, (t.quotas ->> 'stored_bytes')::bigint as bytes into most
    from duetime.tenants t where t.id = tenant;
    if most.jobs <= (select count(*) from (
            select 1 from duetime.jobs j where j.tenant_id = tenant and j.state < 2 limit most.jobs) j)
        + (select count(*) from (select 1 from duetime.runs r where r.tenant_id = tenant limit most.jobs) r)
    then
        raise exception using errcode = 'DT507', message = 'duetime quota stored_jobs', detail = most.jobs::text;
    end if;
    if most.bytes is not null and most.bytes < bytes
        + (select coalesce(sum(octet_length(j.args)), 0) from duetime.jobs j where j.tenant_id = tenant and j.state < 2)
        + (select coalesce(sum(octet_length(r.args)), 0) from duetime.runs r where r.tenant_id = tenant)
    then
        raise exception using errcode = 'DT507', message = 'duetime quota stored_bytes', detail = most.bytes::text;
    end if;
end $$;

-- Submitting inside the caller's own transaction, now with labels and a reference to a payload.
-- Submitting inside the caller's own transaction, on the caller's own connection and role. Always enters through
-- `jobs` (a scanner finds it after the commit), never waits on a lane or sends a notification.
-- The caller may be anybody who was granted this, so everything is checked here too: what is stored can be processed.
create function duetime.submit_job(
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
            then 'connection: the arguments of this tenant are encrypted, and the database has no key: leave it out'
        when task is null or task !~ name then 'task: is not a name'
        when queue is null or queue !~ name then 'queue: is not a name'
        when tier is null or tier not between 0 and 2 then 'tier: must be 0, 1 or 2'
        when not isfinite(fire_at) or fire_at >= '9999-12-31Z' then 'due_at: lies too far in the future'
        when args is null or octet_length(args) > 67108864 then 'args: must be a JSON object of at most 64 MiB'
        when octet_length(options) > 65536 then 'options: must be a JSON object of at most 64 KiB'
        when timeout_ms not between 1 and 604800000 then 'timeout_ms: more than nothing, at most 7 days'
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
    -- What is no JSON at all is refused by the cast itself, in its own words.
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
    perform duetime.check_stored(submit_job.tenant_id, octet_length(args));
    -- The scanner makes the lane. Until then it counts as asked for: no row here that another caller would wait for.
    if (select 1 from duetime.lanes l where l.tenant_id = submit_job.tenant_id and l.queue = submit_job.queue
            and l.tier = submit_job.tier and l.task = submit_job.task limit 1) is null
        and (select 1 from duetime.lane_requests q where q.tenant_id = submit_job.tenant_id
            and q.queue = submit_job.queue and q.tier = submit_job.tier and q.task = submit_job.task limit 1) is null
    then
        perform duetime.check_queues(submit_job.tenant_id, array[submit_job.queue], false);
        if duetime.lanes_used(submit_job.tenant_id, most_lanes) >= most_lanes then
            raise exception using errcode = 'DT429', message = format(
                'the tenant may use %s lanes within a day, and has used as many: a lane is a queue, a priority and a'
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
                raise exception using errcode = 'DT422', message = 'this idempotency key came with another request';
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
        select duetime.now(), 1, submit_job.tenant_id, array[submit_job.job_id] from duetime.listening l
        where l.one and l.until > duetime.now();
    return submit_job.job_id;
end $$;
-- What runs with the owner's rights is for those who are named.
revoke execute on function duetime.submit_job from public;

-- Row-level security: whatever a query forgets, the role below sees one tenant's rows, and none before it is told which.
-- The service's own role owns the tables, so its hot paths pay nothing for this.
do $$
begin
    if not exists (select from pg_roles where rolname = 'duetime_tenant') then
        begin
            create role duetime_tenant nologin;
        exception
            when duplicate_object or unique_violation then null; -- another database of this server was quicker
            when insufficient_privilege then
                raise exception using errcode = 'DT403',
                    message = format('the role duetime_tenant is missing, and %I may not create it', current_user),
                    hint = format('as an administrator: create role duetime_tenant nologin; grant duetime_tenant to %I',
                        current_user);
        end;
    end if;
    if not (select rolsuper from pg_roles where rolname = current_user) then
        begin
            execute format('grant duetime_tenant to %I', current_user);
        exception when insufficient_privilege then null; -- it may have been granted already: the next line tells
        end;
        begin
            set local role duetime_tenant;
            reset role;
        exception when insufficient_privilege then
            raise exception using errcode = 'DT403',
                message = format('%I may not act as duetime_tenant', current_user),
                hint = format('as an administrator: grant duetime_tenant to %I', current_user);
        end;
    end if;
end $$;

create function duetime.current_tenant() returns integer language sql stable parallel safe
    as $$ select nullif(current_setting('duetime.tenant', true), '')::integer $$;

do $$
declare
    name text;
begin
    foreach name in array array['jobs', 'runs', 'history', 'dead_letters', 'lanes', 'keys', 'labels', 'deleted_jobs',
        'queues', 'payloads', 'payload_refs', 'events', 'api_keys', 'audit', 'calendars', 'calendar_users']
    loop
        execute format('alter table duetime.%I enable row level security', name);
        -- Said of a list of one, and not as an equality: see `jobs_below`.
        execute format('create policy own on duetime.%I to duetime_tenant using'
            ' (tenant_id = any (array[duetime.current_tenant()]))', name);
        execute format('grant select, insert on duetime.%I to duetime_tenant', name);
        if name <> 'audit' then
            execute format('grant update, delete on duetime.%I to duetime_tenant', name);
        end if;
    end loop;
end $$;

-- Tables that name no tenant: a row belongs to whoever its job or run belongs to.
alter table duetime.tenants enable row level security;
create policy own on duetime.tenants to duetime_tenant using (id = duetime.current_tenant());
grant select on duetime.tenants to duetime_tenant;
alter table duetime.cursors enable row level security;
create policy own on duetime.cursors to duetime_tenant
    using ((select true from duetime.jobs j
        where j.id = job_id and j.tenant_id = any (array[duetime.current_tenant()]) limit 1));
grant select, insert, update, delete on duetime.cursors to duetime_tenant;
alter table duetime.cancels enable row level security;
create policy own on duetime.cancels to duetime_tenant
    using ((select true from duetime.runs r
        where r.id = run_id and r.tenant_id = any (array[duetime.current_tenant()]) limit 1));
grant select, insert on duetime.cancels to duetime_tenant;
alter table duetime.workers enable row level security;
create policy serving on duetime.workers for select to duetime_tenant
    using (duetime.current_tenant() is not null and coalesce(tenant_id, duetime.current_tenant()) = duetime.current_tenant());
grant select on duetime.workers to duetime_tenant;
grant select on duetime.listening to duetime_tenant;
grant usage on schema duetime to duetime_tenant;

-- Of the newest live runs of all tenants below an id, those of the tenant that the transaction acts for. Row-level
-- security would have it pass by any number of others; here the number is bounded.
create function duetime.live_runs_below(before uuid, most integer, out seen bigint, out lowest uuid, out ids uuid[])
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    select count(*), (array_agg(r.id))[count(*)],
        array_agg(r.id) filter (where r.tenant_id = duetime.current_tenant())
    into seen, lowest, ids
    from (select n.id, n.tenant_id from duetime.runs n where n.id < before order by n.id desc limit most) r;
end $$;
revoke execute on function duetime.live_runs_below from public;
grant execute on function duetime.live_runs_below to duetime_tenant;

-- What lists read of history. These are functions for the same reason as the hot path: a plan that sorts a tenant's
-- history, instead of walking an index to its bound, is a thousand times slower.

-- The next ids below one, of a tenant. The planner must not walk the primary key, along which it would pass by the rows
-- of all other tenants. It cannot if what is sorted by begins with the tenant; but where a tenant *equals* something, it
-- knows better than to sort by it. So here and in the policies a tenant is one of a list of one.
create function duetime.jobs_below(tenant integer, before uuid, most integer) returns setof uuid
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    return query
    select j.id from duetime.jobs j where j.tenant_id = any (array[tenant]) and j.id < before
    order by j.tenant_id desc, j.id desc limit most;
end $$;
create function duetime.dead_letters_below(tenant integer, before uuid, most integer) returns setof uuid
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    return query
    select d.run_id from duetime.dead_letters d where d.tenant_id = any (array[tenant]) and d.run_id < before
    order by d.tenant_id desc, d.run_id desc limit most;
end $$;
create function duetime.labelled_below(tenant integer, label_kind "char", label text, before uuid, most integer)
returns setof uuid language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    return query
    select l.job_id from duetime.labels l
    where l.tenant_id = any (array[tenant]) and l.kind = label_kind and l.value = label and l.job_id < before
    order by l.tenant_id desc, l.kind desc, l.value desc, l.job_id desc limit most;
end $$;
create function duetime.live_jobs_below(tenant integer, before uuid, above uuid, most integer)
returns table (
    id uuid, job_id uuid, home_lane integer, lane_id integer, worker_id uuid, attempt smallint, lost smallint,
    due_at timestamptz, ready_at timestamptz, options bytea)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    select r.id, r.job_id, r.home_lane, r.lane_id, r.worker_id, r.attempt, r.lost, r.due_at, r.ready_at, r.options
    from duetime.runs r where r.tenant_id = tenant and r.job_id < before and r.job_id > above
    order by r.job_id desc limit most;
end $$;

-- Which runs ended, by job, newest first: nothing but what the indexes know, so that thousands are walked in no time.
create function duetime.ends_by_job(tenant integer, before uuid, above uuid, state smallint, most integer)
returns table (job_id uuid, run_id uuid)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off
set enable_hashjoin = off set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    if state is null or state = 4 then
        return query
        select h.job_id, h.run_id from duetime.history h
        where h.tenant_id = tenant and h.job_id < before and h.job_id > above and h.end_state is not null
        order by h.job_id desc, h.run_id desc limit most;
    else
        return query
        select h.job_id, h.run_id from duetime.history h
        where h.tenant_id = tenant and h.end_state = state and h.end_state is not null and h.end_state <> 4
            and h.job_id < before and h.job_id > above
        order by h.job_id desc, h.run_id desc limit most;
    end if;
end $$;

-- The row that ended the newest run of each of these jobs that is over.
create function duetime.last_ends(tenant integer, jobs uuid[])
returns table (job_id uuid, run_id uuid, lane_id integer, end_state smallint, due_at timestamptz, options bytea)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off
set enable_hashjoin = off set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    select h.* from unnest(jobs) as w(id) cross join lateral (
        select h.job_id, h.run_id, h.lane_id, h.end_state, h.due_at, h.options from duetime.history h
        where h.tenant_id = tenant and h.job_id between w.id and w.id and h.end_state is not null
        order by h.job_id desc, h.run_id desc limit 1
    ) h;
end $$;

-- The same, where those runs are known: of those that were over within a day of the time in their id, as nearly all are,
-- out of two or three partitions instead of all. The others are found by `last_ends`.
create function duetime.soon_ended(tenant integer, jobs uuid[], runs uuid[])
returns table (job_id uuid, run_id uuid, lane_id integer, end_state smallint, due_at timestamptz, options bytea)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off
set enable_hashjoin = off set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    select h.* from (
        select w.job_id, w.run_id,
            to_timestamp(('x' || translate(left(w.run_id::text, 13), '-', ''))::bit(48)::bigint / 1000) as at
        from unnest(jobs, runs) as w(job_id, run_id) where w.run_id is not null
        offset 0
    ) w cross join lateral (
        select h.job_id, h.run_id, h.lane_id, h.end_state, h.due_at, h.options from duetime.history h
        where h.tenant_id = tenant and h.job_id between w.job_id and w.job_id and h.run_id = w.run_id
            and h.end_state is not null
            and h.finished_at >= w.at - interval '1 hour' and h.finished_at < w.at + interval '1 day'
        limit 1
    ) h;
end $$;

-- Rows of runs, newest run first: of one job, or those that ended in a rare state, or all.
create function duetime.history_by_run(tenant integer, before uuid, job uuid, state smallint, most integer)
returns table (
    run_id uuid, job_id uuid, lane_id integer, attempt smallint, lost smallint, end_state smallint, failure smallint,
    error text, due_at timestamptz, ready_at timestamptz, started_at timestamptz, first_started_at timestamptz,
    finished_at timestamptz, worker_id uuid, options bytea)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off
set enable_hashjoin = off set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    if job is not null then
        return query
        select h.run_id, h.job_id, h.lane_id, h.attempt, h.lost, h.end_state, h.failure, left(h.error, 500), h.due_at,
            h.ready_at, h.started_at, h.first_started_at, h.finished_at, h.worker_id, h.options
        from duetime.history h where h.tenant_id = tenant and h.job_id between job and job and h.run_id < before
            and h.end_state is not null
        order by h.job_id desc, h.run_id desc limit most;
    elsif state > 4 then
        return query
        select h.run_id, h.job_id, h.lane_id, h.attempt, h.lost, h.end_state, h.failure, left(h.error, 500), h.due_at,
            h.ready_at, h.started_at, h.first_started_at, h.finished_at, h.worker_id, h.options
        from duetime.history h where h.tenant_id = tenant and h.end_state = state and h.end_state is not null
            and h.end_state <> 4 and h.run_id < before
        order by h.run_id desc limit most;
    else
        return query
        select h.run_id, h.job_id, h.lane_id, h.attempt, h.lost, h.end_state, h.failure, left(h.error, 500), h.due_at,
            h.ready_at, h.started_at, h.first_started_at, h.finished_at, h.worker_id, h.options
        from duetime.history h where h.tenant_id = tenant and h.run_id < before
        order by h.run_id desc limit most;
    end if;
end $$;
