-- Slots of limits: runs that wait for one, and slots that become free.

-- How many slots of a limit are taken: by claimed runs, and by unparked runs. If the latter are not claimed within two
-- seconds (their queue is paused, or no worker has their task), other runs may try. Here and below, the lookup for a
-- row is a subquery with `limit` or `offset 0`: when statistics say that a table is empty, the planner would scan all
-- of it for each row.
create or replace function duetime.taken_slots(of_limit bigint) returns bigint
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    moment constant timestamptz := duetime.clock();
begin
    return (
        select count(*) from (
            select h.run_id, h.fence from duetime.holds h
            where h.limit_id = of_limit
                and h.since >= (select l.counted_from from duetime.limits l where l.id = of_limit)
            order by h.since offset 0
        ) h where (
            select 1 from duetime.runs r where r.id = h.run_id and (
                r.fence = h.fence and r.worker_id is not null
                or r.fence = h.fence - 1 and r.worker_id is null and r.lane_id > 0
                    and r.ready_at > moment - interval '2 seconds' and r.ready_at <= moment)
            limit 1) is not null);
end $$;

-- Unpark as many runs as there is room for, those that have been due for longest first. A limit that another
-- transaction has locked is skipped and returned as busy: that transaction may have counted before the caller's runs
-- ended, and may be about to park another run. So the caller must retry it. This may be called at any time and any
-- number of times: an unparked run that was not claimed yet takes up a slot.
create or replace function duetime.unpark(ids bigint[], out given bigint, out busy bigint[]) language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    free bigint[];
begin
    -- A transaction that parks a run has locked its limit, so after this all parked runs are visible.
    free := array(select l.id from duetime.limits l where l.id = any(ids) for update skip locked);
    if cardinality(free) < cardinality(ids) then
        busy := array(select l.id from duetime.limits l where l.id = any(ids) and l.id <> all(free));
        free := array(select x.id from unnest(ids) as x(id) where x.id <> all(busy)); -- also those that were forgotten
    end if;
    with picked as materialized (
        select x.id as limit_id, l.counted_from, p.id, p.fence from unnest(free) as x(id)
        left join lateral (
            select o.id, o.running, o.counted_from from duetime.limits o where o.id = x.id offset 0
        ) l on true
        cross join lateral (
            select n.id, n.fence from duetime.runs n where n.parked_by = x.id order by n.due_at, n.id
            limit case when l.running is null then 100000 else greatest(0, l.running - duetime.taken_slots(l.id)) end
            for update skip locked
        ) p
    ),
    kept as (
        insert into duetime.holds (limit_id, run_id, fence, since)
        select k.limit_id, k.id, k.fence + 1, greatest(duetime.clock(), k.counted_from) from picked k
        where k.counted_from is not null
        on conflict (limit_id, run_id) do update set fence = excluded.fence, since = excluded.since
    )
    update duetime.runs r set lane_id = -r.lane_id, parked_by = null, ready_at = duetime.clock()
    where r.id = any(array(select k.id from picked k));
    get diagnostics given = row_count;
end $$;

-- Release the limits of runs that ended or wait again. Returns the limits that other runs may be parked by. A hold of
-- the same run with another fence stays, whichever worker reports the run: a claim may be writing it at this moment.
create or replace function duetime.free_holds(ids uuid[]) returns bigint[] language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    freed bigint[];
begin
    if not exists (select 1 from duetime.lanes l where l.keyed) then
        return null; -- only runs with keys are ever parked, and what does not count any more is removed at the next count
    end if;
    with gone as (
        delete from duetime.holds h where h.run_id = any(ids) and (
            select 1 from duetime.runs r where r.id = h.run_id
                and (r.fence < h.fence or r.fence = h.fence and r.worker_id is not null) limit 1) is null
        returning h.limit_id
    )
    select array_agg(distinct g.limit_id) into freed
    from gone g where (select l.kind from duetime.limits l where l.id = g.limit_id) in (LimitKind.KEY, LimitKind.TARGET);
    return freed;
end $$;

-- The limits with parked runs although there is room: a process ended before it unparked them, or a limit was raised.
create or replace function duetime.parked_limits(most integer) returns setof bigint language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
begin
    return query
    with recursive waiting (id) as (
        (select r.parked_by from duetime.runs r where r.parked_by is not null order by r.parked_by limit 1)
        union all
        select (select r.parked_by from duetime.runs r where r.parked_by > w.id order by r.parked_by limit 1)
        from waiting w where w.id is not null
    )
    select w.id from waiting w left join lateral (
        select o.id, o.running from duetime.limits o where o.id = w.id offset 0
    ) l on true
    where w.id is not null and (l.running is null or l.running > duetime.taken_slots(l.id)) limit most;
end $$;
