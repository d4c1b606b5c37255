-- Running runs: those of a tenant, and those that no claim lists.

-- The running runs of the tenant that the transaction acts for: those of claims, and those that were handed over.
create or replace function duetime.running_runs() returns setof uuid
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set join_collapse_limit = 1 set jit = off set max_parallel_workers_per_gather = 0 set plan_cache_mode = force_generic_plan
as $$
begin
    return query
    -- By the id alone; otherwise all live runs of the tenant would be compared with all claimed runs.
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

-- What runs in slots of workers, by tenant and queue: at most `most` runs are counted.
create or replace function duetime.running_by_queue(since timestamptz, most integer)
returns table (tenant_id integer, queue text, running bigint, arrived bigint, unplanned bigint) language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set join_collapse_limit = 1 set jit = off set max_parallel_workers_per_gather = 0 set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    select n.tenant_id, n.queue, count(*), count(*) filter (where r.due_at >= since),
        count(*) filter (where r.due_at >= since and left(r.id::text, 13) = left(r.job_id::text, 13))
    from (
        select c.worker_id, c.claim_no, held.id from duetime.claims c cross join lateral unnest(c.run_ids) as held(id)
        limit most) h
    cross join lateral (select * from duetime.runs r where r.id = h.id limit 1) r
    join duetime.lanes n on n.id = r.home_lane
    where r.worker_id = h.worker_id and r.claim_no = h.claim_no group by 1, 2;
end $$;

-- The running runs in a range of pages that neither a claim nor a handover lists: see `store/rules/strays.py`. Runs
-- that have just started are skipped, unless the clock went back behind their start. A hash join with the contents of
-- the claims: a claim lists hundreds of runs in one value, which must not be unpacked for each run. Also returns the
-- waiting runs on these pages that expired before their first start; they have no worker. A run without the option
-- costs one check of its options, if it has any.
create or replace function duetime.stray_runs(first bigint, after bigint, settled interval)
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
            and case when r.worker_id is not null
                then r.started_at is null or r.started_at < duetime.now() - settled or r.started_at > duetime.now()
                when r.options is null or position('"expires_in":'::bytea in r.options) = 0 then false
                -- Not read as JSON: one unreadable row must not stop the walk. Whole seconds, so a bit early: see never_started.
                else r.attempt = 0 and r.lost = 0 and r.lane_id is not null and not r.manual
                    and r.due_at + interval '1 second' * substring(encode(substring(r.options
                        from position('"expires_in":'::bytea in r.options) + 13 for 9), 'escape') from '^[0-9]+')::int
                        < duetime.now() end
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
    where case when s.worker_id is null then true when s.claim_no is not null then l.id is null
        else (select 1 from duetime.handovers h where h.run_id = s.id and h.fence = s.fence limit 1) is null end;
end $$;
