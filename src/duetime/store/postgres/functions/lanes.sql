-- Lanes: which may be used, how they wake and fall asleep.

-- The lanes among these that must not get runs: gone, asleep or about to sleep, or another lane has the id.
-- The transaction gets its number before the lanes are read: `tidy_lanes` waits for all lower numbers.
create or replace function duetime.unusable_lanes(lanes integer[], nonces bigint[]) returns integer[] language plpgsql
set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
begin
    perform pg_current_xact_id();
    return array(
        select x.id from unnest(lanes, nonces) as x(id, nonce) where (
            select l.nonce = x.nonce and l.awake and l.closing is null from duetime.lanes l where l.id = x.id limit 1
        ) is not true);
end $$;

-- The same inside a statement that stores runs: it fails, and the lanes are looked up again.
create or replace function duetime.use_lanes(lanes integer[], nonces bigint[]) returns boolean language plpgsql
set enable_seqscan = off set jit = off
as $$
begin
    perform pg_current_xact_id();
    if exists (
        select 1 from unnest(lanes, nonces) as x(id, nonce) where (
            select l.nonce = x.nonce and l.awake and l.closing is null from duetime.lanes l where l.id = x.id limit 1
        ) is not true)
    then
        raise exception using errcode = 'DT410', message = 'a lane is gone or asleep';
    end if;
    return true;
end $$;

-- Refuse new work of a tenant that is suspended or being deleted. The statements that store new work read the state of
-- the tenant themselves, and call this only to refuse: a call for each submission would be measurable.
create or replace function duetime.refuse_submission(state smallint) returns boolean language plpgsql
as $$
begin
    raise exception using errcode = 'DT423', message = 'duetime tenant state', detail = state::text;
end $$;

-- How many lanes a tenant has used within a day, up to a number.
create or replace function duetime.lanes_used(tenant integer, most bigint) returns bigint language plpgsql stable
set enable_seqscan = off set jit = off
as $$
begin
    return (
        select count(*) from (
            select 1 from duetime.lanes l where l.tenant_id = tenant
                and (l.awake or l.changed_at > duetime.now() - interval '1 day')
            limit most) used) + (
        select count(*) from (select 1 from duetime.lane_requests q where q.tenant_id = tenant limit most) asked);
end $$;

-- Wake lanes and create missing ones, one node at a time, so that a node that has read a turn has read all lower ones.
-- `most` is the limit of a tenant; null: for work that was accepted before.
create or replace function duetime.wake_lanes(tenants integer[], queues text[], tiers smallint[], tasks text[],
    trials smallint[], keyeds boolean[], most integer)
returns void language plpgsql set enable_seqscan = off set jit = off
as $$
declare
    tenant record;
begin
    perform pg_advisory_xact_lock(hashtextextended('duetime lanes', 0));
    if most is not null then
        for tenant in
            select x.tenant_id as id, count(*) as lanes, array_agg(x.queue) as queues
            from unnest(tenants, queues, tiers, tasks, trials, keyeds) as x(tenant_id, queue, tier, task, trial, keyed)
            where (
                select 1 from duetime.lanes l
                where l.tenant_id = x.tenant_id and l.queue = x.queue and l.tier = x.tier and l.task = x.task
                    and l.trial = x.trial and l.keyed = x.keyed
                    and (l.awake or l.changed_at > duetime.now() - interval '1 day')
            ) is null and x.tenant_id > 0 -- what a node makes for itself is no tenant's
            group by x.tenant_id
        loop
            perform duetime.check_queues(tenant.id, tenant.queues, true);
            if duetime.lanes_used(tenant.id, most) + tenant.lanes > most then
                raise exception using errcode = 'DT429', message = format(
                    'the tenant has used all of its %s lanes within a day: a lane is a queue, a priority and'
                    ' a task, or the host of a call', most);
            end if;
        end loop;
    end if;
    -- In two steps: an insert that conflicts also consumes an id, and the ids would be used up within months.
    with woken as (
        update duetime.lanes l set awake = true, closing = null, changed_at = duetime.now()
        where l.id = any(array(
                select k.id
                from unnest(tenants, queues, tiers, tasks, trials, keyeds) as x(tenant_id, queue, tier, task, trial, keyed)
                cross join lateral (
                    select o.id from duetime.lanes o
                    where o.tenant_id = x.tenant_id and o.queue = x.queue and o.tier = x.tier and o.task = x.task
                        and o.trial = x.trial and o.keyed = x.keyed limit 1) k))
            and (not l.awake or l.closing is not null)
        returning l.id
    ),
    made as (
        insert into duetime.lanes (tenant_id, queue, tier, task, trial, keyed, awake, changed_at)
        select distinct x.*, true, duetime.now()
        from unnest(tenants, queues, tiers, tasks, trials, keyeds) as x(tenant_id, queue, tier, task, trial, keyed)
        where (
            select 1 from duetime.lanes o
            where o.tenant_id = x.tenant_id and o.queue = x.queue and o.tier = x.tier and o.task = x.task
                and o.trial = x.trial and o.keyed = x.keyed limit 1) is null
        returning id
    )
    insert into duetime.lane_changes (lane_id, awake, at)
    select c.id, true, duetime.now() from (select w.id from woken w union all select m.id from made m) c order by c.id;
end $$;

-- Whether a lane must stay awake: it has runs, parked runs, runs without a lane, or runs on trial.
create or replace function duetime.is_needed(lane duetime.lanes) returns boolean language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    -- From the end of the index, where live runs are: before it there may be any number of entries of ended runs.
    return (select 1 from duetime.runs r where r.lane_id = lane.id order by r.ready_at desc limit 1) is not null
        or (select 1 from duetime.runs r where r.lane_id = -lane.id limit 1) is not null
        or (select 1 from duetime.runs r where coalesce(r.lane_id, 0) = 0 and r.home_lane = lane.id limit 1) is not null
        or lane.trial = Trial.NONE and (
            select 1 from duetime.lanes l
            where l.tenant_id = lane.tenant_id and l.queue = lane.queue and l.tier = lane.tier and l.task = lane.task
                and l.trial > Trial.NONE and l.keyed = lane.keyed and l.awake limit 1) is not null
        -- New runs of a suspect go on trial in the statement that creates them, which cannot wake a lane.
        or lane.trial > Trial.NONE and (
            select 1 from duetime.suspects s where s.tenant_id = lane.tenant_id and s.task = lane.task limit 1) is not null;
end $$;

-- Let lanes without runs fall asleep. A process may be storing a run in a lane at this moment, so this takes three
-- calls. The first marks the lane: after its commit no statement uses it. The second sees the mark and notes its own
-- transaction number: transactions that did not see the mark have a lower one. Once all of those have ended, their runs
-- are visible; if there are none, there never will be. Until then the lane is read like any other. Returns how many
-- fell asleep. Other nodes wait for the lock on lanes in the meantime, so each call handles only a part; lanes in use
-- are not checked again for a while.
create or replace function duetime.tidy_lanes(idle interval, most integer) returns bigint language plpgsql
set enable_seqscan = off set jit = off
as $$
declare
    ended bigint;
    rested bigint;
    ids integer[];
begin
    if not pg_try_advisory_xact_lock(hashtextextended('duetime lanes', 0)) then
        return 0; -- another node is at it
    end if;
    ended := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    ids := array(select l.id from duetime.lanes l where l.awake and l.closing between 1 and ended limit most);
    with quiet as (
        update duetime.lanes l set awake = false, closing = null, changed_at = duetime.now()
        where l.id = any(ids) and not duetime.is_needed(l) returning l.id
    )
    insert into duetime.lane_changes (lane_id, awake, at) select q.id, false, duetime.now() from quiet q order by q.id;
    get diagnostics rested = row_count;
    update duetime.lanes l set closing = null, changed_at = duetime.now() where l.id = any(ids) and l.awake;
    update duetime.lanes l set closing = pg_current_xact_id()::text::bigint where l.awake and l.closing = 0;
    ids := array(
        select l.id from duetime.lanes l
        where l.awake and l.closing is null and l.changed_at <= duetime.now() - idle limit most);
    update duetime.lanes l set closing = case when n.needed then null else 0 end,
        changed_at = case when n.needed then duetime.now() + 4 * idle else l.changed_at end
    from (select c.id, duetime.is_needed(c) as needed from duetime.lanes c where c.id = any(ids) offset 0) n
    where l.id = n.id;
    delete from duetime.lane_changes c
    where c.at < duetime.now() - interval '1 hour' and c.turn < (select max(n.turn) from duetime.lane_changes n);
    delete from duetime.lane_requests q where q.at < duetime.now() - interval '1 day' or (
        select 1 from duetime.lanes l where l.tenant_id = q.tenant_id and l.queue = q.queue and l.tier = q.tier
            and l.task = q.task limit 1) is not null;
    return rested;
end $$;

-- Wake lanes that are asleep although they have runs. It starts from the runs, so that it finds all such lanes.
create or replace function duetime.wake_used_lanes() returns bigint language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off
as $$
declare
    woken bigint;
begin
    perform pg_advisory_xact_lock(hashtextextended('duetime lanes', 0));
    with recursive used as (
        (select r.lane_id from duetime.runs r where r.lane_id > 0 order by r.lane_id limit 1)
        union all
        select (select r.lane_id from duetime.runs r where r.lane_id > u.lane_id order by r.lane_id limit 1)
        from used u where u.lane_id is not null
    ),
    lost as (
        update duetime.lanes l set awake = true, closing = null, changed_at = duetime.now()
        from used u where l.id = u.lane_id and not l.awake returning l.id
    )
    insert into duetime.lane_changes (lane_id, awake, at) select l.id, true, duetime.now() from lost l;
    get diagnostics woken = row_count;
    return woken;
end $$;
