-- The event stream.

-- Committed events without a position, of transactions that a snapshot did not see: they were running then, or began
-- later. A snapshot from the future belongs to another cluster, whose rows were restored here.
create or replace function duetime.unplaced_events(seen pg_snapshot, most integer) returns table (xid xid8, id bigint)
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

-- Assign positions to events that were committed since the last call; returns the last position. Writers take no lock
-- and wait for no reader. An event gets its position when it is visible, so an event that commits late comes after
-- those that were read before, and an open transaction delays only its own events.
create or replace function duetime.place_events(most integer) returns bigint language plpgsql
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
    -- One call at a time: the positions of one call are committed before the next call assigns more.
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

-- Events after a position, in order.
create or replace function duetime.read_events(after bigint, most integer)
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
