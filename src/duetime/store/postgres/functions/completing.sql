-- Completing: runs end, wait again or are handed over.

-- The hot path: end runs that succeeded without result and logs. Nearly all were claimed with the same fence; `others`
-- are the rest (null: none), with their fences. Returns the accepted runs (null: all), and the limits that they held
-- (null: none; without keyed runs this is one probe). No index serves `is not distinct from`, so runs are found by
-- their ids alone.
create or replace function duetime.succeed_runs(ids uuid[], fence integer, others uuid[], other_fences integer[], worker uuid,
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
        where c.worker_id = succeed_runs.worker and c.claim_no = any(succeed_runs.closed)
          and c.standing = ClaimStanding.CLAIMED
    ),
    kept as (
        insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
            due_at, ready_at, started_at, first_started_at, finished_at, worker_id, timeout_ms, args, options)
        select d.id, d.job_id, d.tenant_id, d.home_lane, d.fence, d.attempt, d.lost, AttemptState.SUCCEEDED,
            RunState.SUCCEEDED, d.due_at, d.ready_at, d.started_at, d.first_started_at, duetime.now(), d.worker_id,
            d.timeout_ms, d.args, d.options
        from done d
    ),
    appended as (
        insert into duetime.events (at, kind, tenant_id, ids)
        select duetime.now(), EventKind.SUCCEEDED, d.tenant_id, array_agg(d.id) from done d
        where (select l.until > duetime.now() from duetime.listening l where l.one) group by d.tenant_id
    )
    select array_agg(d.id) into accepted from done d;
    freed := duetime.free_holds(succeed_runs.ids);
    accepted := case when cardinality(accepted) = cardinality(succeed_runs.ids) then null else coalesce(accepted, '{}') end;
end $$;

-- End runs in any other way; failed runs also become dead letters. A skipped run was claimed too late and had no attempt.
-- Returns the accepted runs. `any(array[x.id])`
-- instead of `x.id`, here and below: no index order serves it, so the planner cannot start with all live runs, as it
-- would when its statistics say that there are none.
create or replace function duetime.end_runs(ids uuid[], fences integer[], worker uuid, closed bigint[],
    attempt_states smallint[], end_states smallint[], failures smallint[], errors text[], results bytea[], logs bytea[])
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
            r.attempt - (x.attempt_state in (AttemptState.LOST, AttemptState.SKIPPED))::int as spent,
            case when x.attempt_state <> AttemptState.SKIPPED then r.started_at end as began_at,
            r.lost + (x.attempt_state = AttemptState.LOST)::int as lost_by_now
    ),
    gone as (
        delete from duetime.claims c
        where c.worker_id = end_runs.worker and c.claim_no = any(end_runs.closed)
          and c.standing = ClaimStanding.CLAIMED
    ),
    kept as (
        insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
            failure, due_at, ready_at, started_at, first_started_at, finished_at, worker_id, timeout_ms, args, options,
            result, logs, error)
        select d.id, d.job_id, d.tenant_id, d.home_lane, d.fence, d.spent, d.lost_by_now, d.attempt_state, d.end_state,
            d.failure, d.due_at, d.ready_at, d.began_at, d.first_started_at, duetime.now(),
            nullif(d.worker_id, '00000000-0000-0000-0000-000000000000'), d.timeout_ms, d.args, d.options, d.result, d.log,
            d.error
        from done d
    ),
    dead as (
        insert into duetime.dead_letters (run_id, job_id, tenant_id, lane_id, attempt, lost, failure, error, due_at,
            died_at, timeout_ms, args, options)
        select d.id, d.job_id, d.tenant_id, d.home_lane, d.spent, d.lost_by_now, d.failure, d.error, d.due_at,
            duetime.now(), d.timeout_ms, d.args, d.options
        from done d where d.end_state = RunState.FAILED
        -- A run that died before and was created again under its id: its end must not be refused forever.
        on conflict (run_id) do update set attempt = excluded.attempt, lost = excluded.lost,
            failure = excluded.failure, error = excluded.error, died_at = excluded.died_at, args = excluded.args,
            options = excluded.options
    ),
    appended as (
        insert into duetime.events (at, kind, tenant_id, ids)
        select duetime.now(), d.end_state, d.tenant_id, array_agg(d.id) from done d
        where (select l.until > duetime.now() from duetime.listening l where l.one) group by d.tenant_id, d.end_state
    )
    select array_agg(d.id) into accepted from done d;
    return accepted;
end $$;

-- Make runs wait again, with a row in history for the attempt; not runs whose cancellation was requested.
create or replace function duetime.retry_runs(ids uuid[], fences integer[], worker uuid, attempt_states smallint[],
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
            attempt = r.attempt - (not x.spent)::int, lost = r.lost + (x.attempt_state = AttemptState.LOST)::int,
            -- A failed run has shown that it kills no worker.
            lane_id = coalesce(x.lane, case when x.attempt_state = AttemptState.FAILED then r.home_lane else r.lane_id end),
            first_started_at = coalesce(r.first_started_at, r.started_at),
            -- A snooze spends nothing, so nothing else would show that the run has started and cannot expire any more.
            options = case
                when x.attempt_state = AttemptState.SNOOZED and position('"expires_in"'::bytea in r.options) > 0
                then decode(regexp_replace(encode(r.options, 'escape'), '"expires_in":[0-9.]+', '"expires_in":null'), 'escape')
                else r.options end
        from unnest(retry_runs.ids, retry_runs.fences, attempt_states, failures, errors, retry_runs.logs, delays, spents,
            retry_runs.lanes) as x(id, fence, attempt_state, failure, error, log, delay, spent, lane)
        where r.id = any(array[x.id]) and r.fence = x.fence and r.worker_id = retry_runs.worker and not r.cancel_requested
        returning r.*, x.attempt_state, x.failure, x.error, x.log,
            r.attempt + (not x.spent and x.attempt_state <> AttemptState.LOST)::int as tried
    ),
    kept as (
        insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, failure,
            due_at, started_at, first_started_at, finished_at, worker_id, timeout_ms, logs, error)
        select a.id, a.job_id, a.tenant_id, a.home_lane, a.fence, a.tried, a.lost, a.attempt_state, a.failure, a.due_at,
            a.started_at, nullif(a.first_started_at, a.started_at), duetime.now(), retry_runs.worker, a.timeout_ms,
            a.log, a.error
        from again a
    ),
    appended as (
        insert into duetime.events (at, kind, tenant_id, ids)
        select duetime.now(), EventKind.RETRYING, a.tenant_id, array_agg(a.id) from again a
        where (select l.until > duetime.now() from duetime.listening l where l.one) group by a.tenant_id
    )
    select array_agg(a.id) into accepted from again a;
    return accepted;
end $$;

-- Complete a run inside the caller's transaction: effect and completion are one commit. False when another worker holds
-- the run. That transaction may stay open for long: it locks only its own run. The limits of the run are free after its
-- commit, because its holds no longer count; the worker's report or a scanner unparks other runs.
create or replace function duetime.complete_run(run_id uuid, fence integer, worker_id uuid, result bytea, logs bytea)
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
        values (done.id, done.job_id, done.tenant_id, done.home_lane, done.fence, done.attempt, done.lost,
            AttemptState.SUCCEEDED, RunState.SUCCEEDED, done.due_at, done.ready_at, done.started_at,
            done.first_started_at, moment, done.worker_id, done.timeout_ms, done.args, done.options, complete_run.result, complete_run.logs);
    insert into duetime.events (at, kind, tenant_id, ids)
        select moment, EventKind.SUCCEEDED, done.tenant_id, array[done.id] from duetime.listening l
        where l.one and l.until > duetime.now();
    return true;
end $$;
revoke execute on function duetime.complete_run from public;

-- Let runs continue without their worker until their own deadline; not runs whose cancellation was requested.
create or replace function duetime.hand_over_runs(ids uuid[], fences integer[], worker uuid, waits interval[])
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
        insert into duetime.handovers (run_id, tenant_id, fence, handed_at, deadline)
        select g.id, g.tenant_id, g.fence, m.now, m.now + g.wait from gone_on g cross join (select duetime.clock() as now) m
        on conflict (run_id) do update
        set fence = excluded.fence, handed_at = excluded.handed_at, deadline = excluded.deadline
    )
    select array_agg(g.id) into accepted from gone_on g;
    return accepted;
end $$;

-- Record the end of a followed run, from its last row in history. A run without such a row was withdrawn, which is not
-- an end. Security definer, so that code that ends a run needs no rights on `ended`.
create or replace function duetime.note_end() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
as $$
begin
    insert into duetime.ended (run_id, job_id, tenant_id, end_state, started_at, finished_at)
        select h.run_id, h.job_id, h.tenant_id, h.end_state, h.started_at, h.finished_at from duetime.history h
        where h.tenant_id = old.tenant_id and h.run_id = old.id
            and h.end_state is not null
            -- An occurrence without a run has no dependents to settle.
            and (h.end_state <> RunState.SKIPPED or h.fence > 0)
        order by h.fence desc limit 1
    on conflict do nothing;
    if found then
        perform pg_notify('duetime', 'ended');
    end if;
    return null;
end $$;
revoke execute on function duetime.note_end from public; -- firing a trigger needs no right
