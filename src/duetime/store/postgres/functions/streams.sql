-- Carried runs (model/carried.py) end or land. The id of each acts once: its row in `spent` decides.

-- The days whose ids may act: those with a partition of `spent`. Other ids are older than what is remembered, or far in the
-- future.
create or replace function duetime.spent_days() returns text[] language sql stable as $$
    select array_agg(right(c.relname, 8)) from pg_catalog.pg_inherits i join pg_catalog.pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'duetime.spent'::regclass and not i.inhdetachpending $$;

-- The day in an id, as partitions are named.
create or replace function duetime.day_of(id uuid) returns text language sql stable as $$
    select to_char(to_timestamp(('x' || left(translate(id::text, '-', ''), 12))::bit(48)::bigint / 1000)
        at time zone 'UTC', 'YYYYMMDD') $$;

-- Spend ids, which are in order: transactions with the same ids would deadlock otherwise. Returns which of them had not
-- been spent (null: all). First without looking for conflicts, which costs a third less; few batches have one.
create or replace function duetime.spend(ids uuid[]) returns boolean[] language plpgsql
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    days text[];
    fresh boolean[];
begin
    begin
        insert into duetime.spent (run_id) select x.id from unnest(ids) as x(id);
        return null;
    exception when unique_violation or check_violation then
        null; -- some were spent before, or have no partition
    end;
    days := duetime.spent_days();
    with given as materialized (
        select x.id, x.place, duetime.day_of(x.id) = any(days) as usable from unnest(ids) with ordinality as x(id, place)
    ),
    spent as (
        insert into duetime.spent (run_id) select g.id from given g where g.usable order by g.place
        on conflict do nothing returning run_id
    )
    select array_agg(s.run_id is not null order by g.place) into fresh
    from given g left join spent s on s.run_id = g.id;
    return fresh;
end $$;

-- The events of carried runs that end or land: they come late, because nothing was stored before.
create or replace function duetime.tell_carried(jobs uuid[], ids uuid[], tenants integer[], fresh boolean[], kinds smallint[])
returns void language plpgsql
as $$
begin
    if (select l.until > duetime.now() from duetime.listening l where l.one) then
        insert into duetime.events (at, kind, tenant_id, ids)
        select duetime.now(), k.kind, coalesce(x.tenant_id, tenants[1]),
            array_agg(case when k.kind = EventKind.SUBMITTED then x.job_id else x.id end)
        from unnest(tell_carried.jobs, tell_carried.ids, tenants, fresh) as x(job_id, id, tenant_id, fresh)
        cross join unnest(kinds) with ordinality as k(kind, place)
        where x.fresh is not false
        group by k.place, k.kind, coalesce(x.tenant_id, tenants[1]) order by k.place;
    end if;
end $$;

-- What carried runs are found by, and their payloads; by the places of the runs.
create or replace function duetime.label_carried(jobs uuid[], tenants integer[], fresh boolean[],
    label_places integer[], label_kinds text[], label_values text[], payload_places integer[], payload_ids uuid[])
returns void language plpgsql
as $$
begin
    if cardinality(label_places) > 0 then
        insert into duetime.labels (tenant_id, kind, value, job_id)
        select coalesce(tenants[l.place], tenants[1]), l.kind::"char", l.value, jobs[l.place]
        from unnest(label_places, label_kinds, label_values) as l(place, kind, value)
        where fresh is null or fresh[l.place]
        on conflict do nothing;
    end if;
    if cardinality(payload_places) > 0 then
        insert into duetime.payload_refs (payload_id, job_id, tenant_id)
        select p.payload_id, jobs[p.place], coalesce(tenants[p.place], tenants[1])
        from unnest(payload_places, payload_ids) as p(place, payload_id)
        where fresh is null or fresh[p.place]
        on conflict do nothing;
    end if;
end $$;

-- End carried runs as SUCCEEDED; returns the refused ones (null: none). History refers to their lanes, which need not be
-- awake, only kept: lanes that were in use within a day are not removed. Clocks of workers and of callers may be ahead.
-- An array with one value, of tenants, lanes, timeouts, options, results or logs, stands for that value in every run: each
-- value of an array costs the client more than its place in the row.
create or replace function duetime.end_carried(ids uuid[], jobs uuid[], tenants integer[], dues bigint[],
    timeouts integer[], args bytea[], options bytea[], lanes integer[], starts bigint[], results bytea[], logs bytea[],
    worker uuid, used integer[], nonces bigint[], label_places integer[], label_kinds text[], label_values text[],
    payload_places integer[], payload_ids uuid[])
returns uuid[] language plpgsql
set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    fresh boolean[];
    one_timeout constant integer := case when cardinality(timeouts) = 1 then timeouts[1] end;
    one_options constant bytea := case when cardinality(options) = 1 then options[1] end;
    one_result constant bytea := case when cardinality(results) = 1 then results[1] end;
    one_log constant bytea := case when cardinality(logs) = 1 then logs[1] end;
begin
    if exists (
        select 1 from unnest(used, nonces) as x(id, nonce) where (
            select l.nonce = x.nonce and (l.awake or l.changed_at > duetime.now() - interval '1 day')
            from duetime.lanes l where l.id = x.id limit 1
        ) is not true)
    then
        raise exception using errcode = 'DT410', message = 'a lane is gone or was not used for a day';
    end if;
    fresh := duetime.spend(end_carried.ids);
    insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
        due_at, ready_at, started_at, finished_at, worker_id, timeout_ms, args, options, result, logs)
    select x.id, x.job_id, coalesce(x.tenant_id, tenants[1]), coalesce(x.lane_id, end_carried.lanes[1]), 1, 1, 0,
        AttemptState.SUCCEEDED, RunState.SUCCEEDED,
        least(m.due_at, duetime.now()), least(m.due_at, duetime.now()),
        least(greatest(m.started_at, m.due_at), duetime.now()), duetime.now(), worker,
        coalesce(one_timeout, x.timeout_ms), x.args, coalesce(one_options, x.options), coalesce(one_result, x.result),
        coalesce(one_log, x.log)
    from unnest(end_carried.ids, jobs, tenants, end_carried.lanes, dues, starts, timeouts, end_carried.args,
        end_carried.options, results, end_carried.logs, fresh)
        as x(id, job_id, tenant_id, lane_id, due, start, timeout_ms, args, options, result, log, fresh)
    cross join lateral (select duetime.moment(x.due) as due_at, duetime.moment(x.start) as started_at) m
    where x.fresh is not false;
    perform duetime.tell_carried(jobs, end_carried.ids, tenants, fresh,
        array[EventKind.SUBMITTED, EventKind.STARTED, EventKind.SUCCEEDED]::smallint[]);
    perform duetime.label_carried(jobs, tenants, fresh, label_places, label_kinds, label_values, payload_places,
        payload_ids);
    if fresh is null then
        return null;
    end if;
    return array(
        select x.id from unnest(end_carried.ids, fresh) as x(id, fresh) where not x.fresh);
end $$;

-- Store carried runs; returns when, and the stored ones. Without workers they wait; `suspect`: a worker may have died of
-- them. With workers, each run starts under the claim of the worker at its place in `seats`, since `starts` (null: now). A
-- worker lands what it holds itself: repeated, it gets the runs that this claim holds. In a `shared` landing runs wait whose
-- worker is gone or has used the number, and only those that start are returned.
create or replace function duetime.land(ids uuid[], jobs uuid[], tenants integer[], dues bigint[], timeouts integer[],
    args bytea[], options bytea[], lanes integer[], homes integer[], starts bigint[], seats integer[], suspect boolean,
    workers uuid[], numbers bigint[], shared boolean, used integer[], nonces bigint[], label_places integer[],
    label_kinds text[], label_values text[], payload_places integer[], payload_ids uuid[],
    out at timestamptz, out stored uuid[])
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    moment constant timestamptz := duetime.clock();
    fresh boolean[];
    holder record;
    holders uuid[] := workers; -- null: the worker at this place gets nothing
begin
    at := moment;
    perform duetime.use_lanes(used, nonces);
    for place in 1 .. cardinality(workers) loop
        select w.tenant_id, w.queues into holder from duetime.workers w
        where w.id = workers[place] and w.lease_until > duetime.now();
        if not found then
            if not shared then
                raise exception using errcode = 'DT408', message = 'the lease of the worker is over';
            end if;
            holders[place] := null;
        elsif holder.tenant_id is not null and exists (
            select 1 from unnest(used) as u(id) where not duetime.is_served(u.id, holder.tenant_id, holder.queues))
        then
            if not shared then
                raise exception using errcode = 'DT408', message = 'the worker does not serve these runs';
            end if;
            holders[place] := null;
        elsif shared and exists (
            select 1 from duetime.claims c where c.worker_id = workers[place] and c.claim_no = numbers[place])
        then
            holders[place] := null;
        end if;
    end loop;
    fresh := duetime.spend(land.ids);
    with landed as (
        insert into duetime.runs (id, job_id, tenant_id, lane_id, home_lane, fence, attempt, lost, claim_no, worker_id,
            due_at, ready_at, started_at, args, options, timeout_ms)
        select x.id, x.job_id, x.tenant_id, x.lane_id, x.home_lane, (suspect or h.worker is not null)::int,
            (h.worker is not null)::int, suspect::int, case when h.worker is not null then numbers[x.seat] end, h.worker,
            h.due_at, case when h.worker is null then moment else h.due_at end,
            case when h.worker is not null then
                least(greatest(coalesce(duetime.moment(x.start), moment), duetime.moment(x.due)), moment) end,
            x.args, x.options, x.timeout_ms
        from unnest(land.ids, jobs, tenants, land.lanes, homes, dues, starts, seats, timeouts, land.args, land.options,
            fresh)
            as x(id, job_id, tenant_id, lane_id, home_lane, due, start, seat, timeout_ms, args, options, fresh)
        cross join lateral (
            select holders[x.seat] as worker, least(duetime.moment(x.due), moment) as due_at) h
        where x.fresh is not false
        returning runs.*
    ),
    kept as (
        insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, failure,
            due_at, finished_at, timeout_ms, error)
        select l.id, l.job_id, l.tenant_id, l.home_lane, l.fence, l.attempt, l.lost, AttemptState.LOST,
            FailureClass.LOST, l.due_at, moment, l.timeout_ms, 'its worker was lost'
        from landed l where suspect
    ),
    noted as (
        insert into duetime.claims (worker_id, claim_no, claimed_at, deadline, run_ids)
        select l.worker_id, l.claim_no, moment, min(l.started_at + l.timeout_ms * interval '1 millisecond'),
            array_agg(l.id)
        from landed l where l.worker_id is not null group by l.worker_id, l.claim_no
    )
    select array_agg(l.id) filter (where l.worker_id is not null or not shared) into stored from landed l;
    perform duetime.tell_carried(jobs, land.ids, tenants, fresh, case
        when shared then array[EventKind.SUBMITTED]
        when cardinality(workers) > 0 then array[EventKind.SUBMITTED, EventKind.STARTED]
        when suspect then array[EventKind.SUBMITTED, EventKind.RETRYING] else array[EventKind.SUBMITTED] end::smallint[]);
    if shared and stored is not null then
        perform duetime.tell_carried(jobs, land.ids, tenants,
            array(select holders[x.seat] is not null and x.fresh is not false
                from unnest(seats, fresh) with ordinality as x(seat, fresh, place) order by x.place),
            array[EventKind.STARTED]::smallint[]);
    end if;
    perform duetime.label_carried(jobs, tenants, fresh, label_places, label_kinds, label_values, payload_places,
        payload_ids);
    if stored is null and cardinality(workers) > 0 and not shared then
        -- It landed before under this claim, and the answer was lost; or the number belongs to something else.
        if (select not (c.run_ids && land.ids) from duetime.claims c
            where c.worker_id = workers[1] and c.claim_no = numbers[1])
        then
            raise exception using errcode = 'DT408', message = 'the number of this claim was used before';
        end if;
        stored := array(
            select r.id from duetime.runs r
            where r.id = any(land.ids) and r.worker_id = workers[1] and r.claim_no = numbers[1]);
    end if;
    stored := coalesce(stored, '{}');
end $$;
