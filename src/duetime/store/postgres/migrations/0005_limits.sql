-- Limits: how many runs may run at once, and how many may start in a period. Breakers before targets that fail.

-- A moment as the number of microseconds since 1970: cheap to send and to read, where many rows carry some.
create function duetime.stamp(moment timestamptz) returns bigint language sql stable parallel safe
    as 'select (pg_catalog.date_part(''epoch'', moment) * 1000000)::bigint';
-- And back, in two steps: as one number of microseconds a distant moment would not fit into a double.
create function duetime.moment(stamp bigint) returns timestamptz language sql stable parallel safe as $$
    select timestamptz 'epoch' + stamp / 1000000 * interval '1 second' + stamp % 1000000 * interval '1 microsecond' $$;

-- Runs with keys of their own stand in lanes apart, so that claims from all other lanes stay as short as they were.
alter table duetime.lanes add column keyed boolean not null default false;
alter table duetime.lanes drop constraint lanes_tenant_id_queue_tier_task_trial_key;
alter table duetime.lanes add unique (tenant_id, queue, tier, task, trial, keyed);
create index lanes_keyed on duetime.lanes (id) where keyed;

-- Which of these lanes a run must not be stored in: they are gone, asleep or about to be, or another lane has their id.
-- The transaction has its number before the lanes are looked at: `tidy_lanes` waits for all that have a lower one.
create function duetime.unusable_lanes(lanes integer[], nonces bigint[]) returns integer[] language plpgsql
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
create function duetime.use_lanes(lanes integer[], nonces bigint[]) returns boolean language plpgsql
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

-- What callers inside their own transactions have asked for without a lane: they count like lanes, for a day.
create table duetime.lane_requests (
    tenant_id integer not null,
    queue text not null,
    tier smallint not null,
    task text not null,
    at timestamptz not null
);
create index lane_requests_of_tenant on duetime.lane_requests (tenant_id, queue, task, tier);

-- How many lanes a tenant has used within a day, up to a number.
create function duetime.lanes_used(tenant integer, most bigint) returns bigint language plpgsql stable
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

-- Wake lanes, and make those that are missing, one node at a time: who has read a turn has read all below it. `most`:
-- how many a tenant may use; null: this is work that was accepted before.
create function duetime.wake_lanes(tenants integer[], queues text[], tiers smallint[], tasks text[], trials smallint[],
    keyeds boolean[], most integer)
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
                    'the tenant may use %s lanes within a day, and has used as many: a lane is a queue, a priority and'
                    ' a task, or the host of a call', most);
            end if;
        end loop;
    end if;
    -- In two steps: an insert that meets a row takes a number for it all the same, and the ids would be used up in months.
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

-- Whether a lane must stay awake: runs stand in it, are parked, wait without a lane, or are on trial beside it.
create function duetime.is_needed(lane duetime.lanes) returns boolean language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    -- From the end, where what lives is: before it may lie any number of entries of runs that are over.
    return (select 1 from duetime.runs r where r.lane_id = lane.id order by r.ready_at desc limit 1) is not null
        or (select 1 from duetime.runs r where r.lane_id = -lane.id limit 1) is not null
        or (select 1 from duetime.runs r where coalesce(r.lane_id, 0) = 0 and r.home_lane = lane.id limit 1) is not null
        or lane.trial = 0 and (
            select 1 from duetime.lanes l
            where l.tenant_id = lane.tenant_id and l.queue = lane.queue and l.tier = lane.tier and l.task = lane.task
                and l.trial > 0 and l.keyed = lane.keyed and l.awake limit 1) is not null
        -- New runs of a suspect are put on trial in the statement that makes them: it cannot wake a lane.
        or lane.trial > 0 and (
            select 1 from duetime.suspects s where s.tenant_id = lane.tenant_id and s.task = lane.task limit 1) is not null;
end $$;

-- Let lanes without runs fall asleep. A process that knows a lane may be storing a run in it at this moment, so this
-- takes three calls. The first marks the lane: from its commit on no statement uses it. The second, which sees the
-- mark, notes its own number: who did not see the mark has a lower one. Once all of those have ended, what they stored
-- can be seen; where there is nothing, there never will be. Until then the lane is looked at like any other.
-- Returns how many fell asleep. Others wait for their turn at lanes meanwhile, so it deals with a part of them at a time;
-- those that are in use are not looked at again for a while.
create function duetime.tidy_lanes(idle interval, most integer) returns bigint language plpgsql
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

-- Wake lanes that runs wait in though they are asleep, from the runs: whatever has put them there, they are found.
create function duetime.wake_used_lanes() returns bigint language plpgsql
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

-- How far a tenant's rate of fires is used up: it fires as if one fire took one part of a second, and this is when the last
-- one is over. A row is held by the scan that fires for its tenant; another scan takes nothing of that tenant meanwhile.
create table duetime.fire_rates (
    tenant_id integer primary key,
    used_until timestamptz not null default '-infinity'
) with (fillfactor = 50);

-- How many of the wanted fires tenants under a rate may have now: they are charged for these. A tenant saves up for a
-- second, or for one fire where that takes longer. One whose rate another scan holds gets none. A moment ahead of the
-- clock was written before it was put back.
create function duetime.charge_fires(tenants integer[], wanted integer[]) returns table (tenant_id integer, granted integer)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    present constant timestamptz := duetime.clock();
begin
    return query
    with held as materialized (
        select r.tenant_id, r.used_until from duetime.fire_rates r where r.tenant_id = any(tenants)
        order by r.tenant_id for update skip locked
    ),
    room as materialized (
        select h.tenant_id, x.since, t.fires_per_second as rate, least(w.wanted,
            floor(extract(epoch from present - x.since)::float8 * t.fires_per_second + 1e-6))::integer as granted
        from held h join unnest(tenants, wanted) as w(tenant_id, wanted) on w.tenant_id = h.tenant_id
        join duetime.tenants t on t.id = h.tenant_id
        cross join lateral (
            select greatest(least(h.used_until, present),
                present - greatest(1.0, 1.0 / t.fires_per_second) * interval '1 second') as since) x
    ),
    used as (
        update duetime.fire_rates r set used_until = o.since + o.granted / o.rate * interval '1 second'
        from room o where r.tenant_id = any(array[o.tenant_id])
    )
    select o.tenant_id, o.granted from room o where o.granted > 0;
end $$;

-- Give back what a rate was charged for fires that were not made.
create function duetime.refund_fires(tenant integer, count bigint) returns void language plpgsql
set enable_seqscan = off set jit = off
as $$
begin
    update duetime.fire_rates r set used_until = r.used_until - count / t.fires_per_second * interval '1 second'
    from duetime.tenants t where t.id = tenant and r.tenant_id = tenant and t.fires_per_second is not null and count > 0;
end $$;

-- Which cursors tenants may fire of their backlogs now, oldest first, held against other nodes, and which of the tenants were
-- charged for it. Each tenant that is not suspended has the same share.
create function duetime.take_from_backlogs(most integer, without uuid[], out jobs uuid[], out tenants integer[])
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    waiting integer[];
    rated boolean[];
    share integer;
    ids uuid[];
    granted integer;
begin
    with recursive backlogs as (
        (select c.backlog_of as id from duetime.cursors c where c.backlog_of is not null order by c.backlog_of limit 1)
        union all
        select (select c.backlog_of from duetime.cursors c where c.backlog_of > b.id order by c.backlog_of limit 1)
        from backlogs b where b.id is not null
    )
    select array_agg(w.id), array_agg(w.rated) into waiting, rated from (
        select b.id, t.fires_per_second is not null as rated
        from backlogs b join duetime.tenants t on t.id = any(array[b.id])
        where t.state = 0 order by random() limit most) w; -- by lot, where there are more than can have a share
    jobs := '{}';
    tenants := '{}';
    share := greatest(1, most / greatest(1, coalesce(cardinality(waiting), 0)));
    for place in 1 .. coalesce(cardinality(waiting), 0) loop
        granted := share;
        if rated[place] then
            granted := coalesce((select f.granted from duetime.charge_fires(array[waiting[place]], array[share]) f), 0);
        end if;
        continue when granted = 0;
        ids := array(
            select c.job_id from duetime.cursors c
            where c.backlog_of = waiting[place] and c.job_id <> all (take_from_backlogs.without)
            order by c.scan_at limit granted for update skip locked);
        jobs := jobs || ids;
        if rated[place] then
            tenants := tenants || waiting[place];
            perform duetime.refund_fires(waiting[place], granted - cardinality(ids));
        end if;
    end loop;
end $$;

-- How many of their due cursors tenants may fire now, of those tenants that may not fire all of them: none while they are
-- suspended or others stand before these in a backlog.
create function duetime.admit_fires(tenants integer[], wanted integer[]) returns table (tenant_id integer, granted integer)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    rated integer[];
    counts integer[];
    waiting integer[];
begin
    select array_agg(x.id) filter (where not x.waits), array_agg(x.wanted) filter (where not x.waits),
        array_agg(x.id) filter (where x.waits)
    into rated, counts, waiting
    from (
        select t.id, w.wanted, t.fires_per_second, t.state <> 0 or (
            select 1 from duetime.cursors c where c.backlog_of = t.id limit 1) is not null as waits
        from unnest(admit_fires.tenants, admit_fires.wanted) as w(id, wanted)
        join duetime.tenants t on t.id = any(array[w.id])
        offset 0) x
    where x.waits or x.fires_per_second is not null;
    if waiting is not null then
        return query select w.id, 0 from unnest(waiting) as w(id);
    end if;
    if rated is not null then
        return query
        select r.id, coalesce(f.granted, 0) from unnest(rated) as r(id)
        left join duetime.charge_fires(rated, counts) f on f.tenant_id = r.id;
    end if;
end $$;

-- What is held while it is decided who may start. Rows of keys are made by the first run that names them.
create table duetime.limits (
    id bigint generated always as identity primary key,
    tenant_id integer not null,
    kind smallint not null, -- 1 tenant, 2 queue, 3 concurrency key, 4 rate key, 5 target (what its breaker lets through)
    name text collate "C" not null,
    running integer,
    rate integer,
    period interval,
    used_at timestamptz not null, -- to ten minutes: most claims lock a limit and leave its row as it is
    counted_from timestamptz not null default '-infinity', -- no hold of it is older
    set_at timestamptz, -- nodes may not have heard yet of a limit on what runs: what they claim is looked for at each count
    unique (tenant_id, kind, name)
) with (fillfactor = 50);
create index limits_set on duetime.limits (kind) where kind in (2, 5);

-- The queues of tenants, each as often as something names it; `seen_at`: until when it was in use, null: it is now.
create view duetime.queue_names (tenant_id, name, seen_at) as
    select q.tenant_id, q.name, null::timestamptz from duetime.queues q
    union all
    select o.tenant_id, o.name collate "default", null from duetime.limits o where o.kind = 2
    union all
    select l.tenant_id, l.queue, case when not l.awake then l.changed_at end from duetime.lanes l
    where l.queue <> 'duetime.notifications' -- which no caller has asked for
    union all
    select r.tenant_id, r.queue, null from duetime.lane_requests r;

-- Refuse queues that would be more than a tenant may have; those that are there already are never refused. A caller
-- inside its own transaction must not hold the lock, since the fleet would wait for that transaction: it may be one of a
-- few that pass the limit together.
create function duetime.check_queues(tenant integer, names text[], exactly boolean) returns void language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
as $$
declare
    most constant bigint := (select (t.quotas ->> 'queues')::bigint from duetime.tenants t where t.id = tenant);
    fresh bigint;
begin
    if most is null then
        return;
    end if;
    if exactly then
        perform pg_advisory_xact_lock(hashtextextended('duetime quota ' || tenant || ' queues', 0));
    end if;
    select count(distinct n.name) into fresh from unnest(names) as n(name)
    where n.name <> 'duetime.notifications' and (
        select 1 from duetime.queue_names q where q.tenant_id = tenant and q.name = n.name limit 1) is null;
    if fresh > 0 and duetime.usage(tenant, 'queues') + fresh > most then
        raise exception using errcode = 'DT507', message = 'duetime quota queues', detail = most::text;
    end if;
end $$;
create function duetime.keep_queues() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform duetime.check_queues(new.tenant_id, array[new.name collate "default"], true);
    return new;
end $$;
revoke execute on function duetime.keep_queues from public;
create trigger within_quotas before insert on duetime.queues for each row execute function duetime.keep_queues();
create trigger within_quotas before insert on duetime.limits for each row when (new.kind = 2)
    execute function duetime.keep_queues();

-- Who runs under which limit. A row counts only as long as its run is claimed under this fence: it cannot leak. A row one
-- fence ahead of its run says that the run was given its lane back for a slot of this limit, and has not been claimed yet.
create table duetime.holds (
    limit_id bigint not null,
    run_id uuid not null,
    fence integer not null,
    since timestamptz not null, -- by the clock, and not before its limit's `counted_from`
    primary key (run_id, limit_id)
) with (autovacuum_vacuum_scale_factor = 0.02);
create index holds_of_limit on duetime.holds (limit_id, since);

-- How many have started, in steps of a hundredth of the period; a row counts until its time is over.
create table duetime.starts (
    limit_id bigint not null,
    until timestamptz not null,
    count integer not null,
    primary key (limit_id, until)
) with (fillfactor = 80);

-- A run whose key is full waits in no lane: its lane is turned to the negative, and `parked_by` names the limit.
alter table duetime.runs add column parked_by bigint;
create index runs_parked on duetime.runs (parked_by, due_at, id) where parked_by is not null;

-- A run whose rate is used up waits in its lane: its moment is `ready_at`, and `put_off_by` names the limit.
alter table duetime.runs add column put_off_by bigint;
create index runs_put_off on duetime.runs (put_off_by, ready_at, id) where put_off_by is not null;

create table duetime.breakers (
    tenant_id integer not null,
    target text collate "C" not null,
    state smallint not null default 0, -- 0 closed, 1 open, 2 probing, 3 recovering
    since timestamptz not null,
    until timestamptz,
    trips integer not null default 0,
    primary key (tenant_id, target)
) with (fillfactor = 50);

-- What attempts at a target came to, by the second; kept for as long as a breaker looks back.
create table duetime.attempts (
    tenant_id integer not null,
    target text collate "C" not null,
    at timestamptz not null,
    tried integer not null,
    failed integer not null,
    retried integer not null,
    primary key (tenant_id, target, at)
) with (fillfactor = 80);

-- How many slots of a limit are taken: by runs that are claimed, and by those that were given their lanes back for one.
-- Where the latter are not claimed within two seconds (their queue is paused, no worker has their task), others may try.
-- Here and below, what is looked up for a row is a query of its own (`limit`, `offset 0`): where the planner believes that a
-- table is empty, it would join by walking the whole of it for each row.
create function duetime.taken_slots(of_limit bigint) returns bigint
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
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

-- Hold limits that no other transaction holds, and make those of keys that no run has named before. A limit that is not
-- returned is busy, which is as good as full: no claim waits for one. Nothing is written where nothing changes, or each
-- claim would leave a version of the row behind, which no snapshot held open lets go.
create function duetime.hold_limits(tenants integer[], kinds smallint[], names text[], runnings integer[],
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
    -- Two transactions that make the same row would wait for each other. One of them finds the lock taken instead; the
    -- locks are few, and shared by many names, because the server has room for some sixty in each transaction.
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

-- How limits stand that are held; what does not count any more is removed. Of holds that are gone, a snapshot held open
-- keeps the entries in the index: a low-water mark for each limit passes them by. It is moved every ten seconds at most,
-- since that rewrites the row. Holds are added by those alone who hold the limit, so none is ever added below the mark.
create function duetime.count_limits(ids bigint[])
returns table (id bigint, now timestamptz, running integer, live bigint, rate integer, period interval, started bigint,
    free_at timestamptz, is_due boolean, first_at timestamptz, last_at timestamptz)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    moment constant timestamptz := duetime.clock();
    stale uuid[];
begin
    perform duetime.hold_running(l.id) from duetime.limits l where l.id = any(ids) and l.set_at is not null;
    if found then
        -- One that lies ahead was set before the clock was put back: all nodes will have heard of it as soon from now on.
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
        -- Those that a completion is about to remove are left to it.
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
    select l.id, moment, case l.kind when 1 then t.running_runs else l.running end,
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

-- Give those who wait for rates the moments that are free by now, in their order.
create function duetime.lay_lines(ids bigint[], ats timestamptz[], intervals interval[], most integer)
returns bigint language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    given bigint;
begin
    with held as materialized (
        select r.id, r.ready_at, x.at, x.step, x.limit_id
        from unnest(ids, ats, intervals) as x(limit_id, at, step) cross join lateral (
            select n.id, n.ready_at from duetime.runs n
            where n.put_off_by = x.limit_id and n.ready_at > duetime.now() and n.lane_id > 0 and n.worker_id is null
            order by n.ready_at, n.id limit most for update skip locked
        ) r
    ),
    laid as materialized (
        select h.id, h.at + (row_number() over (partition by h.limit_id order by h.ready_at, h.id) - 1) * h.step as at
        from held h
    )
    update duetime.runs r set ready_at = greatest(l.at, duetime.clock()) from laid l where r.id = l.id;
    get diagnostics given = row_count;
    return given;
end $$;

-- Let those who wait for a rate be decided about anew, the first of them first.
create function duetime.leave_lines(of_limit bigint, most integer) returns bigint language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    given bigint;
begin
    update duetime.runs r set ready_at = duetime.clock(), put_off_by = null
    where r.id = any(array(
        select n.id from duetime.runs n
        where n.put_off_by = of_limit and n.ready_at > duetime.now() and n.lane_id > 0 and n.worker_id is null
        order by n.ready_at, n.id limit most for update skip locked));
    get diagnostics given = row_count;
    return given;
end $$;

-- The first ready runs of limited lanes.
create function duetime.candidates(lanes integer[], marks timestamptz[], depth integer)
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

-- What `claim_many` does, while limits are held: also for runs that were chosen one by one. The time is read after the
-- locks, so that no attempt seems to begin before the one that made room for it has ended.
create function duetime.claim_limited(lanes integer[], takes integer[], marks timestamptz[], chosen uuid[],
    workers uuid[], numbers bigint[], rooms integer[])
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
    moment constant timestamptz := duetime.clock();
    seat record;
    seats uuid[] := '{}'; -- for each run in turn, whom it goes to
    seat_numbers bigint[] := '{}';
    allowed boolean[] := array_fill(true, array[coalesce(cardinality(lanes), 0)]);
begin
    for seat in
        select w.id, s.number, s.room, w.tenant_id, w.queues
        from unnest(claim_limited.workers, claim_limited.numbers, claim_limited.rooms) as s(worker, number, room)
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
        from unnest(claim_limited.lanes, claim_limited.takes, claim_limited.marks, allowed) as l(lane, take, mark, allowed)
        join duetime.lanes n on n.id = l.lane cross join lateral (
            select r.ctid as place from duetime.runs r
            where r.lane_id = l.lane and r.ready_at >= l.mark and r.ready_at <= duetime.now() and r.worker_id is null
                and r.tenant_id is not distinct from n.tenant_id
            order by r.ready_at, r.id limit l.take for update skip locked
        ) r
        where l.allowed
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
    taken as (
        update duetime.runs r
        set worker_id = seats[p.seat], claim_no = seat_numbers[p.seat], fence = r.fence + 1, attempt = r.attempt + 1,
            started_at = moment, progress = null, message = null, put_off_by = null
        from picked p where r.ctid = p.place
        returning r.worker_id, r.claim_no, r.id, r.job_id, r.lane_id, r.fence, r.attempt, r.lost, r.due_at, r.ready_at,
            r.started_at, r.args, r.options, r.timeout_ms, r.checkpoint, r.tenant_id
    ),
    noted as (
        insert into duetime.claims (worker_id, claim_no, claimed_at, deadline, run_ids)
        select t.worker_id, t.claim_no, moment,
            min(t.started_at + t.timeout_ms * interval '1 millisecond'), array_agg(t.id)
        from taken t group by t.worker_id, t.claim_no
    ),
    told as (
        insert into duetime.events (at, kind, tenant_id, ids)
        select moment, 3, t.tenant_id, array_agg(t.id) from taken t
        where (select l.until > duetime.now() from duetime.listening l where l.one) group by t.tenant_id
    )
    select t.worker_id, t.id, t.job_id, t.lane_id, t.fence, t.attempt, t.lost, t.due_at, t.ready_at, t.started_at,
        t.args, t.options, t.timeout_ms, t.checkpoint
    from taken t;
end $$;

-- Give their lanes back to parked runs, as many as there is room for, those that have been due for longest first. A limit
-- that another transaction holds is left alone and returned as busy: that transaction may have counted before the caller's
-- runs were over, and may be about to park one more. So the caller has to come back for it. This may be called at any time
-- and any number of times: what was given its lane back and has not been claimed yet takes up room.
create function duetime.unpark(ids bigint[], out given bigint, out busy bigint[]) language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    free bigint[];
begin
    -- A transaction that parks a run holds its limit, so after this everything that was parked can be seen.
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

-- Runs are over, or wait again: they hold nothing any more. Returns the limits that other runs may be parked by. A hold of
-- the same run under another fence stays, whichever worker reports the run: a claim may be writing it at this moment.
create function duetime.free_holds(ids uuid[]) returns bigint[] language plpgsql
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
    from gone g where (select l.kind from duetime.limits l where l.id = g.limit_id) in (3, 5);
    return freed;
end $$;

-- The limits that runs are parked by although there is room: a process ended before it gave the lanes back, or a limit was
-- raised.
create function duetime.parked_limits(most integer) returns setof bigint language plpgsql stable
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

-- The hot path of completing: end runs that succeeded without a word. Nearly all were claimed under the same fence; `others`
-- are those that were not (null: none), with theirs. Returns the runs that were accepted (null: all of them, which need not
-- be said), and the limits that they held (null: none; where no run has keys this is one probe). No index serves `is not
-- distinct from`, so runs are found by their ids alone.
create function duetime.succeed_runs(ids uuid[], fence integer, others uuid[], other_fences integer[], worker uuid,
    closed bigint[], out accepted uuid[], out freed bigint[]) language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
begin
    with done as (
        delete from duetime.runs r
        where r.id = any(succeed_runs.ids) and r.worker_id is not distinct from succeed_runs.worker
          and r.fence = case when others is null then succeed_runs.fence
                else coalesce(other_fences[array_position(others, r.id)], succeed_runs.fence) end
        returning r.*
    ),
    gone as (
        delete from duetime.claims c
        where c.worker_id = succeed_runs.worker and c.claim_no = any(succeed_runs.closed) and c.standing = 0
    ),
    kept as (
        insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
            due_at, ready_at, started_at, first_started_at, finished_at, worker_id, timeout_ms, args, options)
        select d.id, d.job_id, d.tenant_id, d.home_lane, d.fence, d.attempt, d.lost, 1, 4, d.due_at, d.ready_at,
            d.started_at, d.first_started_at, duetime.now(), d.worker_id, d.timeout_ms, d.args, d.options
        from done d
    ),
    told as (
        insert into duetime.events (at, kind, tenant_id, ids)
        select duetime.now(), 4, d.tenant_id, array_agg(d.id) from done d
        where (select l.until > duetime.now() from duetime.listening l where l.one) group by d.tenant_id
    )
    select array_agg(d.id) into accepted from done d;
    freed := duetime.free_holds(succeed_runs.ids);
    accepted := case when cardinality(accepted) = cardinality(succeed_runs.ids) then null else coalesce(accepted, '{}') end;
end $$;

-- End runs in any other way; failed ones become dead letters too. Returns those that were accepted.
-- `any(array[x.id])` instead of `x.id`, here and below: no order of an index serves it, so the planner cannot begin with
-- all live runs, which it does where it believes that there are none.
create function duetime.end_runs(ids uuid[], fences integer[], worker uuid, closed bigint[], attempt_states smallint[],
    end_states smallint[], failures smallint[], errors text[], results bytea[], logs bytea[])
returns uuid[] language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    accepted uuid[];
begin
    with done as (
        delete from duetime.runs r
        using unnest(end_runs.ids, end_runs.fences, attempt_states, end_states, failures, errors, results, end_runs.logs)
            as x(id, fence, attempt_state, end_state, failure, error, result, log)
        where r.id = any(array[x.id]) and r.fence = x.fence and r.worker_id = end_runs.worker
        returning r.*, x.attempt_state, x.end_state, x.failure, x.error, x.result, x.log,
            r.attempt - (x.attempt_state = 3)::int as spent, r.lost + (x.attempt_state = 3)::int as lost_by_now
    ),
    gone as (
        delete from duetime.claims c
        where c.worker_id = end_runs.worker and c.claim_no = any(end_runs.closed) and c.standing = 0
    ),
    kept as (
        insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
            failure, due_at, ready_at, started_at, first_started_at, finished_at, worker_id, timeout_ms, args, options,
            result, logs, error)
        select d.id, d.job_id, d.tenant_id, d.home_lane, d.fence, d.spent, d.lost_by_now, d.attempt_state, d.end_state,
            d.failure, d.due_at, d.ready_at, d.started_at, d.first_started_at, duetime.now(), d.worker_id, d.timeout_ms,
            d.args, d.options, d.result, d.log, d.error
        from done d
    ),
    dead as (
        insert into duetime.dead_letters (run_id, job_id, tenant_id, lane_id, attempt, lost, failure, error, due_at,
            died_at, timeout_ms, args, options)
        select d.id, d.job_id, d.tenant_id, d.home_lane, d.spent, d.lost_by_now, d.failure, d.error, d.due_at,
            duetime.now(), d.timeout_ms, d.args, d.options
        from done d where d.end_state = 5
        -- A run that died before, and was made again under its id: its end must not be refused for ever.
        on conflict (run_id) do update set attempt = excluded.attempt, lost = excluded.lost,
            failure = excluded.failure, error = excluded.error, died_at = excluded.died_at, args = excluded.args,
            options = excluded.options
    ),
    told as (
        insert into duetime.events (at, kind, tenant_id, ids)
        select duetime.now(), d.end_state, d.tenant_id, array_agg(d.id) from done d
        where (select l.until > duetime.now() from duetime.listening l where l.one) group by d.tenant_id, d.end_state
    )
    select array_agg(d.id) into accepted from done d;
    return accepted;
end $$;

-- Make runs wait again, with a row in history for the attempt; not those that shall be cancelled.
create function duetime.retry_runs(ids uuid[], fences integer[], worker uuid, attempt_states smallint[],
    failures smallint[], errors text[], logs bytea[], delays interval[], spents boolean[], lanes integer[])
returns uuid[] language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    accepted uuid[];
begin
    with again as (
        update duetime.runs r
        set worker_id = null, claim_no = null, ready_at = duetime.clock() + x.delay,
            attempt = r.attempt - (not x.spent)::int, lost = r.lost + (x.attempt_state = 3)::int,
            -- One that failed has shown that it kills no worker.
            lane_id = coalesce(x.lane, case when x.attempt_state = 2 then r.home_lane else r.lane_id end),
            first_started_at = coalesce(r.first_started_at, r.started_at)
        from unnest(retry_runs.ids, retry_runs.fences, attempt_states, failures, errors, retry_runs.logs, delays, spents,
            retry_runs.lanes) as x(id, fence, attempt_state, failure, error, log, delay, spent, lane)
        where r.id = any(array[x.id]) and r.fence = x.fence and r.worker_id = retry_runs.worker and not r.cancel_requested
        returning r.*, x.attempt_state, x.failure, x.error, x.log,
            r.attempt + (not x.spent and x.attempt_state <> 3)::int as tried
    ),
    kept as (
        insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, failure,
            due_at, started_at, first_started_at, finished_at, worker_id, timeout_ms, logs, error)
        select a.id, a.job_id, a.tenant_id, a.home_lane, a.fence, a.tried, a.lost, a.attempt_state, a.failure, a.due_at,
            a.started_at, nullif(a.first_started_at, a.started_at), duetime.now(), retry_runs.worker, a.timeout_ms, a.log, a.error
        from again a
    ),
    told as (
        insert into duetime.events (at, kind, tenant_id, ids)
        select duetime.now(), 8, a.tenant_id, array_agg(a.id) from again a
        where (select l.until > duetime.now() from duetime.listening l where l.one) group by a.tenant_id
    )
    select array_agg(a.id) into accepted from again a;
    return accepted;
end $$;

-- Completing a run inside the caller's own transaction: effect and completion are one commit. False when the run
-- belongs to another worker by now. That transaction may last: it locks nothing but its own run. The limits that the run
-- held are free when it commits, since its holds count no more; the worker's report gives the lanes back, or a scanner.
create function duetime.complete_run(run_id uuid, fence integer, worker_id uuid, result bytea, logs bytea)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    done duetime.runs;
    moment constant timestamptz := duetime.clock(); -- of the end and of the event: notifications find one by the other
begin
    delete from duetime.runs r
        where r.id = complete_run.run_id and r.fence = complete_run.fence and r.worker_id = complete_run.worker_id
        returning * into done;
    if not found then
        return false;
    end if;
    insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
            due_at, ready_at, started_at, first_started_at, finished_at, worker_id, timeout_ms, args, options, result, logs)
        values (done.id, done.job_id, done.tenant_id, done.home_lane, done.fence, done.attempt, done.lost, 1, 4,
            done.due_at, done.ready_at, done.started_at, done.first_started_at, moment, done.worker_id, done.timeout_ms, done.args,
            done.options, complete_run.result, complete_run.logs);
    insert into duetime.events (at, kind, tenant_id, ids)
        select moment, 4, done.tenant_id, array[done.id] from duetime.listening l
        where l.one and l.until > duetime.now();
    return true;
end $$;
revoke execute on function duetime.complete_run from public;

-- How much tenants and keys may still use of what is limited by time. Not logged: after a crash every bucket is full, which is
-- less harm than a sync for each that is asked.
create unlogged table duetime.token_buckets (
    tenant_id integer not null,
    key_id uuid not null, -- zero: of the tenant as a whole
    level double precision not null,
    filled_at timestamptz not null,
    full_at timestamptz not null,
    primary key (tenant_id, key_id)
) with (fillfactor = 50);

-- Take tokens, as `model/token_bucket.py` says. The time is read when the row is held: two that ask at once do not both count
-- the same stretch. Buckets are held in the order of their keys, whatever the order of the asks.
create function duetime.take_tokens(tenants integer[], keys uuid[], rates float8[], sizes float8[], needs integer[],
    wants integer[], backs integer[], out given integer[], out levels float8[]) language plpgsql
set enable_seqscan = off set jit = off
as $$
declare
    i integer;
    moment timestamptz;
    held double precision;
    since timestamptz;
    got integer;
begin
    perform set_config('synchronous_commit', 'off', true);
    given := array_fill(0, array[cardinality(tenants)]);
    levels := array_fill(0::float8, array[cardinality(tenants)]);
    for i in select x.n from unnest(tenants, keys) with ordinality as x(tenant, key, n) order by x.tenant, x.key, x.n loop
        loop
            select b.level, b.filled_at into held, since from duetime.token_buckets b
                where b.tenant_id = tenants[i] and b.key_id = keys[i] for update;
            exit when found;
            insert into duetime.token_buckets (tenant_id, key_id, level, filled_at, full_at)
                values (tenants[i], keys[i], sizes[i], duetime.clock(), duetime.clock()) on conflict do nothing;
        end loop;
        moment := duetime.clock();
        held := least(sizes[i],
            held + greatest(0, extract(epoch from moment - since)::float8) * rates[i] + backs[i]);
        got := 0;
        if held + 0.000001 >= least(needs[i], sizes[i]) then
            got := greatest(needs[i], least(wants[i], floor(held + 0.000001)::integer));
        end if;
        held := held - got;
        update duetime.token_buckets b set level = held, filled_at = moment,
            full_at = moment + least(8000000, (sizes[i] - held) / rates[i]) * interval '1 second'
            where b.tenant_id = tenants[i] and b.key_id = keys[i];
        given[i] := got;
        levels[i] := held;
    end loop;
end $$;

alter table duetime.token_buckets enable row level security;

-- Row-level security, as for every other table.
do $$
declare
    name text;
begin
    foreach name in array array['limits', 'breakers', 'attempts'] loop
        execute format('alter table duetime.%I enable row level security', name);
        execute format('create policy own on duetime.%I to duetime_tenant using'
            ' (tenant_id = any (array[duetime.current_tenant()]))', name);
        execute format('grant select, insert, update, delete on duetime.%I to duetime_tenant', name);
    end loop;
    foreach name in array array['holds', 'starts'] loop
        execute format('alter table duetime.%I enable row level security', name);
        execute format('create policy own on duetime.%I to duetime_tenant using'
            ' ((select true from duetime.limits l'
            ' where l.id = limit_id and l.tenant_id = any (array[duetime.current_tenant()]) limit 1))', name);
        execute format('grant select on duetime.%I to duetime_tenant', name);
    end loop;
end $$;
