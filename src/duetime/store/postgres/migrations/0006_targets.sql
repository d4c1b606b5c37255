-- Targets: runs that were handed over to their receiver, and what a tenant's requests are signed and filled with.

-- Runs that go on without their worker: it keeps its name on them, no claim of its holds them, and this is their
-- deadline. Only what answers 202 comes here, so the hot path knows nothing of it.
create table duetime.handovers (
    run_id uuid primary key,
    tenant_id integer not null,
    fence integer not null,
    deadline timestamptz not null
);
create index handovers_by_deadline on duetime.handovers (deadline);
create index handovers_of_tenant on duetime.handovers (tenant_id);

-- Sealed above the store.
create table duetime.tenant_secrets (
    tenant_id integer not null,
    name text not null,
    value bytea not null,
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
        insert into duetime.handovers (run_id, tenant_id, fence, deadline)
        select g.id, g.tenant_id, g.fence, duetime.clock() + g.wait from gone_on g
        on conflict (run_id) do update set fence = excluded.fence, deadline = excluded.deadline
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
    insert into duetime.holds (limit_id, run_id, fence)
    select l.id, held.id, held.fence from duetime.limits l cross join lateral (
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
    on conflict (limit_id, run_id) do update set fence = excluded.fence;
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
