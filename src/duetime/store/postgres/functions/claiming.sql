-- Claiming.
--
-- The functions of the hot path exist to pin their plans. What the planner knows about `runs` is wrong most of the time (at
-- the moment of ANALYZE nothing may have been claimed, or everything), and a plan that sorts a lane or joins without the
-- primary key is a thousand times slower. The settings hold for one call, so no session state stays on a connection.

-- Of each lane above its low-water mark: the first unclaimed runs that are ready, and unless there are so many, the one
-- that is ready next. Of the lanes that have such runs. A lane may have a hundred thousand that are due tomorrow: each
-- look would read many of them in vain.
create or replace function duetime.look(lanes integer[], marks timestamptz[], depth integer)
returns table (lane integer, ready timestamptz[], ids uuid[])
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    moment constant timestamptz := duetime.now();
begin
    return query
    select l.lane, seen.ready || coming.ready, seen.ids || coming.ids
    from unnest(look.lanes, look.marks) as l(lane, mark)
    cross join lateral (
        select r.ready_at as at from duetime.runs r
        where r.lane_id = l.lane and r.ready_at >= l.mark and r.worker_id is null
        order by r.ready_at, r.id limit 1
    ) first
    cross join lateral (
        select array_agg(r.ready_at) as ready, array_agg(r.id) as ids from (
            select r.ready_at, r.id from duetime.runs r
            where first.at <= moment and r.lane_id = l.lane and r.ready_at >= first.at and r.ready_at <= moment
                and r.worker_id is null
            order by r.ready_at, r.id limit look.depth
        ) r
    ) seen
    cross join lateral (
        select array_agg(r.ready_at) as ready, array_agg(r.id) as ids from (
            select r.ready_at, r.id from duetime.runs r
            where coalesce(cardinality(seen.ids), 0) < look.depth and r.lane_id = l.lane
                and r.ready_at >= first.at and r.ready_at > moment and r.worker_id is null
            order by r.ready_at, r.id limit 1
        ) r
    ) coming;
end $$;

-- What claims have in common.
-- template claimed(first)
returns table ({first}
    id uuid, job_id uuid, lane_id integer, fence integer, attempt smallint, lost smallint, due_at timestamptz,
    ready_at timestamptz, started_at timestamptz, args bytea, options bytea, timeout_ms integer, checkpoint bytea)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
-- end
-- template taken(worker, number, moment, picked, first)
taken as (
        update duetime.runs r
        set worker_id = {worker}, claim_no = {number}, fence = r.fence + 1, attempt = r.attempt + 1,
            started_at = {moment}, progress = null, message = null
        {picked}
        returning {first} r.id, r.job_id, r.lane_id, r.fence, r.attempt, r.lost, r.due_at, r.ready_at, r.started_at, r.args,
            r.options, r.timeout_ms, r.checkpoint, r.tenant_id
    )
-- end
-- template noted(worker, number, moment, of_each)
noted as (
        insert into duetime.claims (worker_id, claim_no, claimed_at, deadline, run_ids)
        select {worker}, {number}, {moment}, min(t.started_at + t.timeout_ms * interval '1 millisecond'), array_agg(t.id)
        from taken t {of_each}
    ),
    appended as (
        insert into duetime.events (at, kind, tenant_id, ids)
        select {moment}, EventKind.STARTED, t.tenant_id, array_agg(t.id) from taken t
        where (select l.until > duetime.now() from duetime.listening l where l.one) group by t.tenant_id
    )
-- end
-- template answered(first)
select {first} t.id, t.job_id, t.lane_id, t.fence, t.attempt, t.lost, t.due_at, t.ready_at, t.started_at, t.args, t.options,
        t.timeout_ms, t.checkpoint
    from taken t;
-- end

-- Lease ready runs of each lane to a worker, without touching any index.
create or replace function duetime.claim(
    lanes integer[], takes integer[], marks timestamptz[], worker uuid, number bigint)
{claimed: }
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
    {taken: claim.worker | claim.number | duetime.now() | where r.ctid = any(array(select place from picked)) | },
    {noted: claim.worker | claim.number | duetime.now() | having count(*) > 0}
    {answered: }
end $$;

-- The same for announced runs that are still in their lanes, which have no limits. If it gets none, this claim may have
-- happened before: then these are its runs.
-- By their ids alone: an index of lanes or of tenants would be read for each of them, whole.
create or replace function duetime.claim_announced(ids uuid[], lanes integer[], worker uuid, number bigint)
{claimed: }
begin
    return query
    with open as materialized (
        select n.id as lane, n.tenant_id
        from duetime.workers w cross join (select distinct u.lane from unnest(claim_announced.lanes) as u(lane)) l
        join duetime.lanes n on n.id = l.lane
        where w.id = claim_announced.worker and w.lease_until > duetime.now() and (w.tenant_id is null
            or n.tenant_id = w.tenant_id and (cardinality(w.queues) = 0 or n.queue = any(w.queues)))
    ),
    picked as materialized (
        select r.place
        from unnest(claim_announced.ids, claim_announced.lanes) as x(id, lane) join open o on o.lane = x.lane
        cross join lateral (
            select r.ctid as place from duetime.runs r
            where r.id = x.id and r.lane_id is not distinct from x.lane and r.ready_at <= duetime.now()
                and r.worker_id is null and r.tenant_id is not distinct from o.tenant_id
            for update skip locked
        ) r
    ),
    {taken: claim_announced.worker | claim_announced.number | duetime.now()
        | where r.ctid = any(array(select place from picked)) | },
    {noted: claim_announced.worker | claim_announced.number | duetime.now() | having count(*) > 0}
    {answered: }
    if not found then
        return query
        select r.id, r.job_id, r.lane_id, r.fence, r.attempt, r.lost, r.due_at, r.ready_at, r.started_at, r.args,
            r.options, r.timeout_ms, r.checkpoint
        from duetime.claims c join duetime.workers w on w.id = c.worker_id and w.lease_until > duetime.now()
        join duetime.runs r on r.id = any(c.run_ids) and r.worker_id = c.worker_id and r.claim_no = c.claim_no
        where c.worker_id = claim_announced.worker and c.claim_no = claim_announced.number;
    end if;
end $$;

-- Whether a worker that is bound to a tenant, and perhaps to queues, may take from a lane.
create or replace function duetime.is_served(lane integer, tenant integer, queues text[]) returns boolean
language plpgsql stable set enable_seqscan = off set jit = off as $$
begin
    return exists (
        select 1 from duetime.lanes l where l.id = is_served.lane and l.tenant_id = is_served.tenant
            and (cardinality(is_served.queues) = 0 or l.queue = any(is_served.queues)));
end $$;

-- Lease ready runs of each lane, and chosen runs, and deal them to workers in order, each as many as it has room for. Limits
-- may be locked: the time is read after that, so that no attempt starts before the attempt that made room for it has ended.
create or replace function duetime.claim_many(lanes integer[], takes integer[], marks timestamptz[], chosen uuid[],
    workers uuid[], numbers bigint[], rooms integer[])
{claimed: worker_id uuid,}
declare
    moment constant timestamptz := duetime.clock();
    seat record;
    seats uuid[] := '{}'; -- for each run in turn, the worker it goes to
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
            chosen := array(
                select r.id from duetime.runs r
                where r.id = any(chosen) and duetime.is_served(r.lane_id, seat.tenant_id, seat.queues));
        end if;
    end loop;
    return query
    with wanted as materialized (
        select r.place
        from unnest(claim_many.lanes, claim_many.takes, claim_many.marks, allowed) as l(lane, take, mark, allowed)
        join duetime.lanes n on n.id = l.lane cross join lateral (
            select r.ctid as place from duetime.runs r
            where r.lane_id = l.lane and r.ready_at >= l.mark and r.ready_at <= duetime.now() and r.worker_id is null
                and r.tenant_id is not distinct from n.tenant_id
            order by r.ready_at, r.id limit l.take for update skip locked
        ) r
        where l.allowed limit cardinality(seats)
    ),
    named as materialized (
        select r.ctid as place from duetime.runs r
        where r.id = any(chosen) and r.worker_id is null and r.lane_id > 0 and r.ready_at <= duetime.now()
            and (select n.tenant_id from duetime.lanes n where n.id = r.lane_id) = r.tenant_id
        for update skip locked
    ),
    picked as materialized (
        select p.place, row_number() over () as seat
        from (select place from wanted union all select place from named) p limit cardinality(seats)
    ),
    {taken: seats[p.seat] | seat_numbers[p.seat] | moment | , put_off_by = null from picked p where r.ctid = p.place
        | r.worker_id, r.claim_no,},
    {noted: t.worker_id | t.claim_no | moment | group by t.worker_id, t.claim_no}
    {answered: t.worker_id,}
end $$;
