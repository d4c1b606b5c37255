-- Targets: runs that were handed over to their receiver, and what a tenant's requests are signed and filled with.

-- Runs that go on without their worker: it keeps its name on them, no claim of its holds them, and this is their
-- deadline. Only what answers 202 comes here, so the hot path knows nothing of it.
create table duetime.handovers (
    run_id uuid primary key,
    tenant_id integer not null,
    fence integer not null,
    handed_at timestamptz not null,
    deadline timestamptz not null
);
create index handovers_by_deadline on duetime.handovers (deadline);
create index handovers_of_tenant on duetime.handovers (tenant_id);

-- Sealed above the store.
create table duetime.tenant_secrets (
    tenant_id integer not null,
    name text not null,
    value bytea not null,
    hosts text[] not null, -- where it may be sent
    roles text[] not null, -- who may name it
    created_at timestamptz not null,
    changed_at timestamptz not null,
    primary key (tenant_id, name)
);
create table duetime.signing_secrets (
    tenant_id integer not null,
    id uuid not null,
    value bytea not null,
    created_at timestamptz not null,
    expires_at timestamptz,
    primary key (tenant_id, id)
);
create trigger within_quotas after insert on duetime.tenant_secrets referencing new table as added
    for each statement execute function duetime.keep_quotas('secrets');
create trigger within_quotas after insert on duetime.signing_secrets referencing new table as added
    for each statement execute function duetime.keep_quotas('signing_secrets');

do $$
declare
    name text;
begin
    foreach name in array array['handovers', 'tenant_secrets', 'signing_secrets'] loop
        execute format('alter table duetime.%I enable row level security', name);
        execute format('create policy own on duetime.%I to duetime_tenant using'
            ' (tenant_id = any (array[duetime.current_tenant()]))', name);
        execute format('grant select, insert, update, delete on duetime.%I to duetime_tenant', name);
    end loop;
end $$;

-- Let runs go on without their worker, until a deadline of their own; not those that shall be cancelled.
create function duetime.hand_over_runs(ids uuid[], fences integer[], worker uuid, waits interval[])
returns uuid[] language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    accepted uuid[];
begin
    with gone_on as (
        update duetime.runs r set claim_no = null, message = 'handed over: its receiver finishes it'
        from unnest(hand_over_runs.ids, hand_over_runs.fences, hand_over_runs.waits) as x(id, fence, wait)
        where r.id = any(array[x.id]) and r.fence = x.fence and r.worker_id = hand_over_runs.worker and not r.cancel_requested
        returning r.id, r.tenant_id, r.fence, x.wait
    ),
    kept as (
        insert into duetime.handovers (run_id, tenant_id, fence, handed_at, deadline)
        select g.id, g.tenant_id, g.fence, m.now, m.now + g.wait from gone_on g cross join (select duetime.clock() as now) m
        on conflict (run_id) do update
        set fence = excluded.fence, handed_at = excluded.handed_at, deadline = excluded.deadline
    )
    select array_agg(g.id) into accepted from gone_on g;
    return accepted;
end $$;

-- What runs already counts too, under a limit of a tenant or a queue that was not known when it was claimed. Whoever calls
-- this holds the limit. What counts already is not held: whoever ends runs may hold it, in an order of their own.
create function duetime.hold_running(of_limit bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set join_collapse_limit = 1 set jit = off set max_parallel_workers_per_gather = 0 set plan_cache_mode = force_generic_plan
as $$
begin
    insert into duetime.holds (limit_id, run_id, fence, since)
    select l.id, held.id, held.fence, greatest(duetime.clock(), l.counted_from) from duetime.limits l cross join lateral (
        select r.id, r.fence, r.lane_id, r.tenant_id
        from duetime.claims c cross join lateral unnest(c.run_ids) as u(id)
        cross join lateral (select * from duetime.runs r where r.id = u.id limit 1) r
        where r.worker_id = c.worker_id and r.claim_no = c.claim_no
        union all
        select r.id, r.fence, r.lane_id, r.tenant_id from duetime.handovers h
        cross join lateral (select * from duetime.runs r where r.id = h.run_id limit 1) r
        where r.fence = h.fence and r.claim_no is null and r.worker_id is not null
    ) held
    where l.id = of_limit and held.tenant_id = l.tenant_id and (l.kind = 1 or exists (
        select 1 from duetime.lanes n where n.id = held.lane_id and n.queue = l.name))
        and not exists (
            select 1 from duetime.holds k where k.limit_id = l.id and k.run_id = held.id and k.fence = held.fence)
    order by held.id
    on conflict (limit_id, run_id) do update set fence = excluded.fence, since = excluded.since;
end $$;
revoke execute on function duetime.hold_running from public;
grant execute on function duetime.hold_running to duetime_tenant;

-- The running runs of the tenant that the transaction acts for: those of claims, and those that were handed over.
create function duetime.running_runs() returns setof uuid
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set join_collapse_limit = 1 set jit = off set max_parallel_workers_per_gather = 0 set plan_cache_mode = force_generic_plan
as $$
begin
    return query
    -- By the id alone: else all live runs of the tenant would be compared with all that are claimed.
    select r.id from duetime.claims c cross join lateral unnest(c.run_ids) as held(id)
    cross join lateral (select * from duetime.runs r where r.id = held.id limit 1) r
    where r.worker_id = c.worker_id and r.claim_no = c.claim_no and r.tenant_id = duetime.current_tenant()
    union all
    select r.id from duetime.handovers h
    cross join lateral (select * from duetime.runs r where r.id = h.run_id limit 1) r
    where h.tenant_id = duetime.current_tenant() and r.fence = h.fence and r.claim_no is null
        and r.worker_id is not null;
end $$;
revoke execute on function duetime.running_runs from public;
grant execute on function duetime.running_runs to duetime_tenant;

-- The running runs on a stretch of pages that neither a claim nor a handover lists: see `store/rules/strays.py`. Those that have
-- started just now are passed over, unless the clock went back behind their start. Joined by hashing what the claims list:
-- a claim lists hundreds of runs in one value, which is not to be opened for each of them.
create function duetime.stray_runs(first bigint, after bigint, settled interval)
returns table (id uuid, fence integer, worker_id uuid, claim_no bigint) language plpgsql stable
set enable_seqscan = off set enable_indexscan = on set enable_nestloop = on set enable_hashjoin = on
set jit = off set max_parallel_workers_per_gather = 0 set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    with seen as materialized (
        select r.id, r.fence, r.worker_id, r.claim_no from duetime.runs r
        where r.ctid >= format('(%s,0)', first)::tid and r.ctid < format('(%s,0)', after)::tid
            and r.worker_id is not null
            and (r.started_at is null or r.started_at < duetime.now() - settled or r.started_at > duetime.now())
    ),
    listed as materialized (
        select c.worker_id, c.claim_no, u.id
        from (select distinct s.worker_id, s.claim_no from seen s where s.claim_no is not null) s
        cross join lateral (
            select o.* from duetime.claims o where o.worker_id = s.worker_id and o.claim_no = s.claim_no offset 0) c
        cross join lateral unnest(c.run_ids) as u(id)
    )
    select s.id, s.fence, s.worker_id, s.claim_no from seen s
    left join listed l on l.id = s.id and l.worker_id = s.worker_id and l.claim_no = s.claim_no
    where case when s.claim_no is not null then l.id is null
        else (select 1 from duetime.handovers h where h.run_id = s.id and h.fence = s.fence limit 1) is null end;
end $$;
