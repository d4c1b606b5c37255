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

-- What is held while it is decided who may start. Rows of keys are made by the first run that names them.
create table duetime.limits (
    id bigint generated always as identity primary key,
    tenant_id integer not null,
    kind smallint not null, -- 1 tenant, 2 queue, 3 concurrency key, 4 rate key, 5 target (what its breaker lets through)
    name text collate "C" not null,
    running integer,
    rate integer,
    period interval,
    used_at timestamptz not null,
    set_at timestamptz, -- nodes may not have heard yet of a limit on what runs: what they claim is looked for at each count
    unique (tenant_id, kind, name)
) with (fillfactor = 50);
create index limits_set on duetime.limits (kind) where kind in (2, 5);

-- Who runs under which limit. A row counts only as long as its run is claimed under this fence: it cannot leak.
create table duetime.holds (
    limit_id bigint not null,
    run_id uuid not null,
    fence integer not null,
    primary key (limit_id, run_id)
) with (autovacuum_vacuum_scale_factor = 0.02);
create index holds_of_run on duetime.holds (run_id);

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

-- How many runs are claimed under a limit, counted from the claims that live.
create function duetime.live_holds(of_limit bigint) returns bigint
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
begin
    return (
        select count(*) from duetime.holds h
        join duetime.runs r on r.id = h.run_id and r.fence = h.fence and r.worker_id is not null
        where h.limit_id = of_limit);
end $$;

-- Hold limits in the one order in which everybody does, and make those of keys that nobody has named before.
create function duetime.hold_limits(tenants integer[], kinds smallint[], names text[], runnings integer[],
    rates integer[], periods interval[])
returns table (id bigint, tenant_id integer, kind smallint, name text) language plpgsql
set enable_seqscan = off set enable_hashjoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    insert into duetime.limits as l (tenant_id, kind, name, running, rate, period, used_at)
    select x.tenant_id, x.kind, x.name, x.running, x.rate, x.period, duetime.clock()
    from unnest(tenants, kinds, names, runnings, rates, periods) as x(tenant_id, kind, name, running, rate, period)
    order by x.tenant_id, x.kind, x.name collate "C"
    on conflict (tenant_id, kind, name) do update
    set used_at = excluded.used_at, running = coalesce(excluded.running, l.running),
        rate = coalesce(excluded.rate, l.rate), period = coalesce(excluded.period, l.period)
    returning l.id, l.tenant_id, l.kind, l.name;
end $$;

-- How limits stand that are held; what does not count any more is removed.
create function duetime.count_limits(ids bigint[])
returns table (id bigint, now timestamptz, running integer, live bigint, rate integer, period interval, started bigint,
    free_at timestamptz, is_due boolean, first_at timestamptz, last_at timestamptz)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    moment constant timestamptz := duetime.clock();
begin
    perform duetime.hold_running(l.id) from duetime.limits l where l.id = any(ids) and l.set_at is not null;
    if found then
        -- One that lies ahead was set before the clock was put back: all nodes will have heard of it as soon from now on.
        update duetime.limits l set set_at = case when l.set_at > moment then moment end
        where l.id = any(ids) and (l.set_at < moment - interval '2 seconds' or l.set_at > moment);
    end if;
    delete from duetime.holds h where h.limit_id = any(ids) and not exists (
        select 1 from duetime.runs r where r.id = h.run_id and r.fence = h.fence and r.worker_id is not null);
    delete from duetime.starts s where s.limit_id = any(ids) and s.until <= moment;
    return query
    select l.id, moment, case l.kind when 1 then t.running_runs else l.running end,
        (select count(*) from duetime.holds h where h.limit_id = l.id), l.rate, l.period,
        (select coalesce(sum(s.count), 0)::bigint from duetime.starts s where s.limit_id = l.id),
        (select min(s.until) from duetime.starts s where s.limit_id = l.id),
        l.rate is not null and exists (
            select 1 from duetime.runs r
            where r.put_off_by = l.id and r.ready_at <= moment and r.lane_id > 0 and r.worker_id is null),
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
        cross join lateral (
            select r.ctid as place from duetime.runs r
            where r.lane_id = l.lane and r.ready_at >= l.mark and r.ready_at <= duetime.now() and r.worker_id is null
            order by r.ready_at, r.id limit l.take for update skip locked
        ) r
        where l.allowed
    ),
    named as materialized (
        select r.ctid as place from duetime.runs r
        where r.id = any(chosen) and r.worker_id is null and r.lane_id > 0 and r.ready_at <= duetime.now()
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

-- Give their lanes back to parked runs, as many as there is room for, those that have been due for longest first.
create function duetime.unpark(ids bigint[]) returns bigint language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    given bigint;
begin
    -- Whoever parks a run holds its limit, so after this everything that was parked can be seen.
    perform 1 from (
        select l.id from duetime.limits l where l.id = any(ids) order by l.tenant_id, l.kind, l.name for update) held;
    update duetime.runs r set lane_id = -r.lane_id, parked_by = null, ready_at = duetime.clock()
    where r.id = any(array(
        select p.id from unnest(ids) as x(id) join duetime.limits l on l.id = x.id cross join lateral (
            select n.id from duetime.runs n where n.parked_by = l.id order by n.due_at, n.id
            limit case when l.running is null then 100000 else greatest(0, l.running - duetime.live_holds(l.id)) end
            for update skip locked
        ) p));
    get diagnostics given = row_count;
    return given;
end $$;

-- Runs are not running any more: what they held is free, and goes to those that wait for it.
create function duetime.free_holds(ids uuid[]) returns bigint language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    freed bigint[];
begin
    with gone as (
        delete from duetime.holds h where h.run_id = any(ids) returning h.limit_id
    )
    select array_agg(distinct g.limit_id) into freed
    from gone g join duetime.limits l on l.id = g.limit_id where l.kind in (3, 5);
    return case when freed is null then 0 else duetime.unpark(freed) end;
end $$;

-- The hot path of completing: end runs that succeeded without a word. Nearly all were claimed under the same fence; `others`
-- are those that were not (null: none), with theirs. What a run with keys held is free at once; where no lane has such runs
-- this is one probe. Returns the runs that were accepted; null: all of them, which need not be said. No index serves
-- `is not distinct from`, so runs are found by their ids alone.
create function duetime.succeed_runs(ids uuid[], fence integer, others uuid[], other_fences integer[], worker uuid,
    closed bigint[])
returns uuid[] language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    accepted uuid[];
begin
    with done as (
        delete from duetime.runs r
        where r.id = any(succeed_runs.ids) and r.worker_id is not distinct from succeed_runs.worker
          and r.fence = case when others is null then succeed_runs.fence
                else coalesce(other_fences[array_position(others, r.id)], succeed_runs.fence) end
        returning r.*
    ),
    gone as (
        delete from duetime.claims c where c.worker_id = succeed_runs.worker and c.claim_no = any(succeed_runs.closed)
    ),
    kept as (
        insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
            due_at, ready_at, started_at, finished_at, worker_id, timeout_ms, args, options)
        select d.id, d.job_id, d.tenant_id, d.home_lane, d.fence, d.attempt, d.lost, 1, 4, d.due_at, d.ready_at,
            d.started_at, duetime.now(), d.worker_id, d.timeout_ms, d.args, d.options
        from done d
    ),
    told as (
        insert into duetime.events (at, kind, tenant_id, ids)
        select duetime.now(), 4, d.tenant_id, array_agg(d.id) from done d
        where (select l.until > duetime.now() from duetime.listening l where l.one) group by d.tenant_id
    )
    select array_agg(d.id) into accepted from done d;
    if accepted is not null and exists (select 1 from duetime.lanes l where l.keyed) then
        perform duetime.free_holds(accepted);
    end if;
    return case when cardinality(accepted) = cardinality(succeed_runs.ids) then null else coalesce(accepted, '{}') end;
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
        delete from duetime.claims c where c.worker_id = end_runs.worker and c.claim_no = any(end_runs.closed)
    ),
    kept as (
        insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
            failure, due_at, ready_at, started_at, finished_at, worker_id, timeout_ms, args, options, result, logs, error)
        select d.id, d.job_id, d.tenant_id, d.home_lane, d.fence, d.spent, d.lost_by_now, d.attempt_state, d.end_state,
            d.failure, d.due_at, d.ready_at, d.started_at, duetime.now(), d.worker_id, d.timeout_ms, d.args, d.options,
            d.result, d.log, d.error
        from done d
    ),
    dead as (
        insert into duetime.dead_letters (run_id, job_id, tenant_id, lane_id, attempt, lost, failure, error, due_at,
            died_at, timeout_ms, args, options)
        select d.id, d.job_id, d.tenant_id, d.home_lane, d.spent, d.lost_by_now, d.failure, d.error, d.due_at,
            duetime.now(), d.timeout_ms, d.args, d.options
        from done d where d.end_state = 5
    ),
    told as (
        insert into duetime.events (at, kind, tenant_id, ids)
        select duetime.now(), d.end_state, d.tenant_id, array_agg(d.id) from done d
        where (select l.until > duetime.now() from duetime.listening l where l.one) group by d.tenant_id, d.end_state
    )
    select array_agg(d.id) into accepted from done d;
    if accepted is not null and exists (select 1 from duetime.lanes l where l.keyed) then
        perform duetime.free_holds(accepted);
    end if;
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
            lane_id = coalesce(x.lane, r.lane_id)
        from unnest(retry_runs.ids, retry_runs.fences, attempt_states, failures, errors, retry_runs.logs, delays, spents,
            retry_runs.lanes) as x(id, fence, attempt_state, failure, error, log, delay, spent, lane)
        where r.id = any(array[x.id]) and r.fence = x.fence and r.worker_id = retry_runs.worker and not r.cancel_requested
        returning r.*, x.attempt_state, x.failure, x.error, x.log,
            r.attempt + (not x.spent and x.attempt_state <> 3)::int as tried
    ),
    kept as (
        insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, failure,
            due_at, started_at, finished_at, worker_id, timeout_ms, logs, error)
        select a.id, a.job_id, a.tenant_id, a.home_lane, a.fence, a.tried, a.lost, a.attempt_state, a.failure, a.due_at,
            a.started_at, duetime.now(), retry_runs.worker, a.timeout_ms, a.log, a.error
        from again a
    ),
    told as (
        insert into duetime.events (at, kind, tenant_id, ids)
        select duetime.now(), 8, a.tenant_id, array_agg(a.id) from again a
        where (select l.until > duetime.now() from duetime.listening l where l.one) group by a.tenant_id
    )
    select array_agg(a.id) into accepted from again a;
    if accepted is not null and exists (select 1 from duetime.lanes l where l.keyed) then
        perform duetime.free_holds(accepted);
    end if;
    return accepted;
end $$;

-- Completing a run inside the caller's own transaction: effect and completion are one commit. False when the run
-- belongs to someone else by now.
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
            due_at, ready_at, started_at, finished_at, worker_id, timeout_ms, args, options, result, logs)
        values (done.id, done.job_id, done.tenant_id, done.home_lane, done.fence, done.attempt, done.lost, 1, 4,
            done.due_at, done.ready_at, done.started_at, moment, done.worker_id, done.timeout_ms, done.args,
            done.options, complete_run.result, complete_run.logs);
    insert into duetime.events (at, kind, tenant_id, ids)
        select moment, 4, done.tenant_id, array[done.id] from duetime.listening l
        where l.one and l.until > duetime.now();
    if exists (select 1 from duetime.lanes l where l.keyed) then
        perform duetime.free_holds(array[done.id]);
    end if;
    return true;
end $$;
revoke execute on function duetime.complete_run from public;

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
