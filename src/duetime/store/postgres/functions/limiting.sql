-- Claiming under limits: lock them, count, claim.

-- Lock limits that no other transaction has locked, and create those of new keys. A limit that is not returned is busy,
-- and counts as full: no claim waits for one. A row is written only if it changes; otherwise each claim would leave a
-- dead row version, which an open snapshot keeps from being vacuumed.
create or replace function duetime.hold_limits(tenants integer[], kinds smallint[], names text[], runnings integer[],
    rates integer[], periods interval[])
returns table (id bigint, tenant_id integer, kind smallint, name text) language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    moment constant timestamptz := duetime.clock();
    seen bigint;
begin
    return query
    with held as materialized (
        select l.*, x.running, x.rate, x.period
        from unnest(tenants, kinds, names, runnings, rates, periods) as x(tenant_id, kind, name, running, rate, period)
        cross join lateral (
            select l.id, l.tenant_id, l.kind, l.name from duetime.limits l
            where l.tenant_id = x.tenant_id and l.kind = x.kind and l.name = x.name collate "C" for update skip locked
        ) l
    ),
    said as (
        update duetime.limits l
        set used_at = moment, running = coalesce(h.running, l.running), rate = coalesce(h.rate, l.rate),
            period = coalesce(h.period, l.period)
        from held h
        where l.id = h.id and (coalesce(h.running, l.running) is distinct from l.running
            or coalesce(h.rate, l.rate) is distinct from l.rate
            or coalesce(h.period, l.period) is distinct from l.period
            or l.used_at not between moment - interval '10 minutes' and moment)
    )
    select h.id, h.tenant_id, h.kind, h.name from held h;
    get diagnostics seen = row_count;
    if seen = cardinality(names) then
        return;
    end if;
    -- Two transactions that insert the same row would wait for each other; with this lock one of them sees it taken.
    -- The locks are few and shared by many names, because the server has room for about sixty per transaction.
    return query
    with missing as materialized (
        select x.* from unnest(tenants, kinds, names, runnings, rates, periods)
            as x(tenant_id, kind, name, running, rate, period)
        where (
            select 1 from duetime.limits l
            where l.tenant_id = x.tenant_id and l.kind = x.kind and l.name = x.name collate "C" limit 1) is null
    ),
    places as materialized (
        select p.place, pg_try_advisory_xact_lock(hashtextextended('duetime limits', p.place)) as is_ours
        from (select distinct abs(hashtextextended(m.name, m.tenant_id) % 64) as place from missing m) p
    )
    insert into duetime.limits as l (tenant_id, kind, name, running, rate, period, used_at, counted_from)
    select m.tenant_id, m.kind, m.name, m.running, m.rate, m.period, moment, moment
    from missing m join places p on p.place = abs(hashtextextended(m.name, m.tenant_id) % 64) and p.is_ours
    on conflict (tenant_id, kind, name) do nothing
    returning l.id, l.tenant_id, l.kind, l.name;
end $$;

-- Counts of locked limits. Rows that no longer count are removed. An open snapshot keeps the index entries of removed
-- holds, so each limit has a low-water mark that skips them. The mark moves at most every ten seconds, because that
-- rewrites the row. Only a holder of the limit's lock adds holds, so none is added below the mark.
create or replace function duetime.count_limits(ids bigint[])
returns table (id bigint, now timestamptz, running integer, live bigint, rate integer, period interval, started bigint,
    free_at timestamptz, is_due boolean, first_at timestamptz, last_at timestamptz)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    moment constant timestamptz := duetime.clock();
    stale uuid[];
begin
    perform duetime.hold_running(l.id) from duetime.limits l where l.id = any(ids) and l.set_at is not null;
    if found then
        -- A moment in the future was set before the clock was set back: all nodes learn of it after the same time from
        -- now.
        update duetime.limits l set set_at = case when l.set_at > moment then moment end
        where l.id = any(ids) and (l.set_at < moment - interval '2 seconds' or l.set_at > moment);
    end if;
    stale := array(
        select h.run_id from duetime.limits l cross join lateral (
            select h.run_id, h.fence from duetime.holds h where h.limit_id = l.id and h.since >= l.counted_from
            order by h.since offset 0
        ) h
        where l.id = any(ids) and (
            select 1 from duetime.runs r where r.id = h.run_id
                and (r.fence < h.fence or r.fence = h.fence and r.worker_id is not null) limit 1) is null);
    if cardinality(stale) > 0 then
        -- A completion that is about to remove some of them does so itself.
        delete from duetime.holds h where h.ctid = any(array(
            select k.ctid from duetime.holds k where k.run_id = any(stale) and k.limit_id = any(ids) and (
                select 1 from duetime.runs r where r.id = k.run_id
                    and (r.fence < k.fence or r.fence = k.fence and r.worker_id is not null) limit 1) is null
            for update skip locked));
    end if;
    update duetime.limits l set counted_from = coalesce((
        select h.since from duetime.holds h where h.limit_id = l.id and h.since >= l.counted_from
        order by h.since limit 1), moment)
    where l.id = any(ids) and l.counted_from < moment - interval '10 seconds' and coalesce((
        select h.since from duetime.holds h where h.limit_id = l.id and h.since >= l.counted_from
        order by h.since limit 1), moment) > l.counted_from + interval '10 seconds';
    delete from duetime.starts s where s.limit_id = any(ids) and s.until <= moment;
    return query
    select l.id, moment, case l.kind when LimitKind.TENANT then t.running_runs else l.running end,
        (select count(*) from (
            select h.run_id, h.fence from duetime.holds h where h.limit_id = l.id and h.since >= l.counted_from
            order by h.since offset 0) h
            where h.fence = (select r.fence from duetime.runs r where r.id = h.run_id and r.worker_id is not null limit 1)
        ), l.rate, l.period,
        (select coalesce(sum(s.count), 0)::bigint from duetime.starts s where s.limit_id = l.id and s.until > moment),
        (select min(s.until) from duetime.starts s where s.limit_id = l.id and s.until > moment),
        l.rate is not null and (
            select 1 from duetime.runs r
            where r.put_off_by = l.id and r.ready_at <= moment and r.lane_id > 0 and r.worker_id is null
            order by r.ready_at limit 1) is not null,
        case when l.rate is not null then (
            select min(r.ready_at) from duetime.runs r
            where r.put_off_by = l.id and r.ready_at > moment and r.lane_id > 0 and r.worker_id is null) end,
        case when l.rate is not null then (
            select max(r.ready_at) from duetime.runs r
            where r.put_off_by = l.id and r.lane_id > 0 and r.worker_id is null) end
    from duetime.limits l join duetime.tenants t on t.id = l.tenant_id where l.id = any(ids);
end $$;

-- Count running runs under a limit of a tenant or a queue that was set after they were claimed. The caller
-- has locked the limit. Existing holds are not locked: a completion may lock them in another order.
create or replace function duetime.hold_running(of_limit bigint) returns void
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
    where l.id = of_limit and held.tenant_id = l.tenant_id and (l.kind = LimitKind.TENANT or exists (
        select 1 from duetime.lanes n where n.id = held.lane_id and n.queue = l.name))
        and not exists (
            select 1 from duetime.holds k where k.limit_id = l.id and k.run_id = held.id and k.fence = held.fence)
    order by held.id
    on conflict (limit_id, run_id) do update set fence = excluded.fence, since = excluded.since;
end $$;
revoke execute on function duetime.hold_running from public;
grant execute on function duetime.hold_running to duetime_tenant;

-- The first ready runs of limited lanes.
create or replace function duetime.candidates(lanes integer[], marks timestamptz[], depth integer)
returns table (lane integer, id uuid, put_off boolean, options bytea) language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    select l.lane, r.id, r.put_off_by is not null, r.options from unnest(candidates.lanes, candidates.marks) as l(lane, mark)
    cross join lateral (
        select r.id, r.put_off_by, r.options from duetime.runs r
        where r.lane_id = l.lane and r.ready_at >= l.mark and r.ready_at <= duetime.now() and r.worker_id is null
        order by r.ready_at, r.id limit candidates.depth
    ) r;
end $$;
