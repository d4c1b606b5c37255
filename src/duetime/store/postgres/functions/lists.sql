-- The reads of lists. They are functions, like the hot path, because a plan that sorts a tenant's history instead of
-- walking an index up to its bound is a thousand times slower.

-- Of the newest live runs of all tenants below an id, those of the transaction's tenant. With row-level security alone
-- it could skip any number of other rows; here the number is bounded.
create or replace function duetime.live_runs_below(before uuid, most integer,
    out seen bigint, out lowest uuid, out ids uuid[])
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    select count(*), (array_agg(r.id))[count(*)],
        array_agg(r.id) filter (where r.tenant_id = duetime.current_tenant())
    into seen, lowest, ids
    from (select n.id, n.tenant_id from duetime.runs n where n.id < before order by n.id desc limit most) r;
end $$;
revoke execute on function duetime.live_runs_below from public;
grant execute on function duetime.live_runs_below to duetime_tenant;

-- The next ids of a tenant below an id. The planner must not walk the primary key, where it would skip the rows of all
-- other tenants. It cannot if the sort order starts with the tenant; but for an equality the planner drops the tenant
-- from the sort order. So here and in the policies, the tenant is compared with a list of one element.
create or replace function duetime.jobs_below(tenant integer, before uuid, most integer) returns setof uuid
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    return query
    select j.id from duetime.jobs j where j.tenant_id = any (array[tenant]) and j.id < before
    order by j.tenant_id desc, j.id desc limit most;
end $$;

create or replace function duetime.dead_letters_below(tenant integer, before uuid, most integer) returns setof uuid
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    return query
    select d.run_id from duetime.dead_letters d where d.tenant_id = any (array[tenant]) and d.run_id < before
    order by d.tenant_id desc, d.run_id desc limit most;
end $$;

create or replace function duetime.labelled_below(tenant integer, label_kind "char", label text, before uuid, most integer)
returns setof uuid language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    return query
    select l.job_id from duetime.labels l
    where l.tenant_id = any (array[tenant]) and l.kind = label_kind and l.value = label and l.job_id < before
    order by l.tenant_id desc, l.kind desc, l.value desc, l.job_id desc limit most;
end $$;

-- The names of jobs in their order from a place on (null: from the beginning), or down from it.
create or replace function duetime.names_from(
    tenant integer, place text, place_job uuid, down boolean, most integer)
returns table (value text, job_id uuid)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    if place is null and not down then
        return query
        select l.value, l.job_id from duetime.labels l where l.tenant_id = any (array[tenant]) and l.kind = 'n'::"char"
        order by l.tenant_id, l.kind, l.value, l.job_id limit most;
    elsif place is null then
        return query
        select l.value, l.job_id from duetime.labels l where l.tenant_id = any (array[tenant]) and l.kind = 'n'::"char"
        order by l.tenant_id desc, l.kind desc, l.value desc, l.job_id desc limit most;
    elsif not down then
        return query
        select l.value, l.job_id from duetime.labels l
        where l.tenant_id = any (array[tenant]) and l.kind = 'n'::"char" and (l.value, l.job_id) > (place, place_job)
        order by l.tenant_id, l.kind, l.value, l.job_id limit most;
    else
        return query
        select l.value, l.job_id from duetime.labels l
        where l.tenant_id = any (array[tenant]) and l.kind = 'n'::"char" and (l.value, l.job_id) < (place, place_job)
        order by l.tenant_id desc, l.kind desc, l.value desc, l.job_id desc limit most;
    end if;
end $$;

create or replace function duetime.live_jobs_below(tenant integer, before uuid, above uuid, most integer)
returns table (
    id uuid, job_id uuid, home_lane integer, lane_id integer, worker_id uuid, attempt smallint, lost smallint,
    due_at timestamptz, ready_at timestamptz, options bytea)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    select r.id, r.job_id, r.home_lane, r.lane_id, r.worker_id, r.attempt, r.lost, r.due_at, r.ready_at, r.options
    from duetime.runs r where r.tenant_id = tenant and r.job_id < before and r.job_id > above
    order by r.job_id desc limit most;
end $$;

-- The ended runs by job, newest first. Index-only, so that thousands are read quickly.
create or replace function duetime.ends_by_job(tenant integer, before uuid, above uuid, state smallint, most integer)
returns table (job_id uuid, run_id uuid)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off
set enable_hashjoin = off set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    if state is null or state = RunState.SUCCEEDED then
        return query
        select h.job_id, h.run_id from duetime.history h
        where h.tenant_id = tenant and h.job_id < before and h.job_id > above and h.end_state is not null
        order by h.job_id desc, h.run_id desc limit most;
    else
        return query
        select h.job_id, h.run_id from duetime.history h
        where h.tenant_id = tenant and h.end_state = state and h.end_state is not null and h.end_state <> RunState.SUCCEEDED
            and h.job_id < before and h.job_id > above
        order by h.job_id desc, h.run_id desc limit most;
    end if;
end $$;

-- The last row in history of the newest ended run of each of these jobs.
create or replace function duetime.last_ends(tenant integer, jobs uuid[])
returns table (job_id uuid, run_id uuid, lane_id integer, end_state smallint, due_at timestamptz, options bytea)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off
set enable_hashjoin = off set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    select h.* from unnest(jobs) as w(id) cross join lateral (
        select h.job_id, h.run_id, h.lane_id, h.end_state, h.due_at, h.options from duetime.history h
        where h.tenant_id = tenant and h.job_id between w.id and w.id and h.end_state is not null
        order by h.job_id desc, h.run_id desc limit 1
    ) h;
end $$;

-- The same for known runs that ended within a day of the time in their id, as nearly all do: from two or three
-- partitions instead of all. `last_ends` finds the others.
create or replace function duetime.soon_ended(tenant integer, jobs uuid[], runs uuid[])
returns table (job_id uuid, run_id uuid, lane_id integer, end_state smallint, due_at timestamptz, options bytea)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off
set enable_hashjoin = off set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    select h.* from (
        select w.job_id, w.run_id,
            to_timestamp(('x' || translate(left(w.run_id::text, 13), '-', ''))::bit(48)::bigint / 1000) as at
        from unnest(jobs, runs) as w(job_id, run_id) where w.run_id is not null
        offset 0
    ) w cross join lateral (
        select h.job_id, h.run_id, h.lane_id, h.end_state, h.due_at, h.options from duetime.history h
        where h.tenant_id = tenant and h.job_id between w.job_id and w.job_id and h.run_id = w.run_id
            and h.end_state is not null
            and h.finished_at >= w.at - interval '1 hour' and h.finished_at < w.at + interval '1 day'
        limit 1
    ) h;
end $$;

-- Rows of runs, newest run first: of one job, or those that ended in a rare state, or all.
create or replace function duetime.history_by_run(tenant integer, before uuid, job uuid, state smallint, most integer)
returns table (
    run_id uuid, job_id uuid, lane_id integer, attempt smallint, lost smallint, end_state smallint, failure smallint,
    error text, due_at timestamptz, ready_at timestamptz, started_at timestamptz, first_started_at timestamptz,
    finished_at timestamptz, worker_id uuid, options bytea)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off
set enable_hashjoin = off set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    if job is not null then
        return query
        select h.run_id, h.job_id, h.lane_id, h.attempt, h.lost, h.end_state, h.failure, left(h.error, 500), h.due_at,
            h.ready_at, h.started_at, h.first_started_at, h.finished_at, h.worker_id, h.options
        from duetime.history h where h.tenant_id = tenant and h.job_id between job and job and h.run_id < before
            and h.end_state is not null
        order by h.job_id desc, h.run_id desc limit most;
    elsif state > RunState.SUCCEEDED then
        return query
        select h.run_id, h.job_id, h.lane_id, h.attempt, h.lost, h.end_state, h.failure, left(h.error, 500), h.due_at,
            h.ready_at, h.started_at, h.first_started_at, h.finished_at, h.worker_id, h.options
        from duetime.history h where h.tenant_id = tenant and h.end_state = state and h.end_state is not null
            and h.end_state <> RunState.SUCCEEDED and h.run_id < before
        order by h.run_id desc limit most;
    else
        return query
        select h.run_id, h.job_id, h.lane_id, h.attempt, h.lost, h.end_state, h.failure, left(h.error, 500), h.due_at,
            h.ready_at, h.started_at, h.first_started_at, h.finished_at, h.worker_id, h.options
        from duetime.history h where h.tenant_id = tenant and h.run_id < before
        order by h.run_id desc limit most;
    end if;
end $$;
