-- Firing: the cursors in view, and how many of them tenants may fire.

-- Jobs by their ids, unordered, in their current state: volatile, so that edits made while a cursor lock was waited for
-- are visible. Read by a bitmap of pages, which prefetches: of millions of jobs most are on disk when they fire, and
-- reading them one by one would take longer than everything else.
create or replace function duetime.jobs_by_id(ids uuid[]) returns setof duetime.jobs
language plpgsql volatile rows 1000
set enable_seqscan = off set enable_indexscan = off set enable_bitmapscan = on set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    return query select j.* from duetime.jobs j where j.id = any(jobs_by_id.ids);
end $$;

-- The next fires of some jobs, read the same way.
create or replace function duetime.next_fires(jobs uuid[]) returns table (job_id uuid, next_fire_at timestamptz)
language plpgsql stable rows 50
set enable_seqscan = off set enable_indexscan = off set enable_bitmapscan = on set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query select c.job_id, c.next_fire_at from duetime.cursors c where c.job_id = any(jobs);
end $$;

do $$
begin
    alter function duetime.next_fires(uuid[]) set effective_io_concurrency = 128;
    alter function duetime.jobs_by_id(uuid[]) set effective_io_concurrency = 128;
exception when invalid_parameter_value then
    null; -- a platform on which pages cannot be asked for ahead
end $$;

-- The cursors in view, earliest first, locked against other nodes. Cursors from backlogs come first, up to half of the
-- limit. `turn` is the origin of each: 0 no backlog, 1 a backlog, 2 a backlog whose rate was charged for it. A hash
-- join, because any other join would compare each cursor with each job. `since` is a low-water mark, and `without` are
-- jobs that this node skips.
create or replace function duetime.cursors_in_view(
    most integer, since timestamptz default '1970-01-01Z', without uuid[] default '{}')
returns table (
    job_id uuid, tenant_id integer, queue text, tier smallint, task text, schedule bytea, next_fire_at timestamptz,
    options bytea, made bigint, exact boolean, owed bytea, turn smallint)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_nestloop = off
set enable_mergejoin = off set enable_hashjoin = on set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    taken uuid[] := '{}';
    charged integer[] := '{}'; -- the tenants whose rates were charged
begin
    if (select 1 from duetime.cursors c where c.backlog_of is not null limit 1) is not null then
        select t.jobs, t.tenants into taken, charged
        from duetime.take_from_backlogs(greatest(1, cursors_in_view.most / 2), cursors_in_view.without) t;
        return query
        select j.id, j.tenant_id, j.queue, j.tier, j.task, j.schedule, c.next_fire_at, j.options, c.made, c.exact, c.owed,
            case when j.tenant_id = any(charged) then 2::smallint else 1::smallint end
        from duetime.jobs_by_id(taken) j join duetime.cursors c on c.job_id = j.id and c.job_id = any(taken)
        order by c.scan_at;
    end if;
    return query
    with due as materialized (
        select c.job_id, c.scan_at, c.next_fire_at, c.made, c.exact, c.owed from duetime.cursors c
        where c.scan_at >= cursors_in_view.since and c.scan_at <= duetime.now() and c.backlog_of is null
            and c.job_id not in (select unnest(cursors_in_view.without))
        order by c.scan_at limit cursors_in_view.most - cardinality(taken) for update skip locked
    )
    select d.job_id, j.tenant_id, j.queue, j.tier, j.task, j.schedule, d.next_fire_at, j.options, d.made, d.exact,
        d.owed, 0::smallint
    from due d join duetime.jobs_by_id(array(select due.job_id from due)) j on j.id = d.job_id
    order by d.scan_at;
end $$;

-- The jobs of the cursors that come into view within a time, for forecasts: earliest first, up to `most` of them. Of
-- minutes with more than `few` cursors, about `sampled` in all are drawn by lot. Each row also says how many cursors such
-- minutes have, how many were seen, and up to when.
create or replace function duetime.cursors_ahead(
    since timestamptz, until timestamptz, most integer, few integer, sampled integer)
returns table (job_id uuid, crowded boolean, crowd bigint, seen bigint, horizon timestamptz) language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_nestloop = on
set enable_mergejoin = off set enable_hashjoin = on set jit = off set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    with inside as materialized (
        -- Each cursor draws its lot here: below, the planner may draw one for a whole minute.
        select c.job_id, c.scan_at, date_trunc('minute', c.scan_at, 'UTC') as minute, random() as lot
        from duetime.cursors c
        where c.scan_at >= since and c.scan_at < until and c.backlog_of is null order by c.scan_at limit most
    ),
    minutes as materialized (select i.minute, count(*) as there from inside i group by 1),
    crowd as materialized (select coalesce(sum(m.there), 0)::bigint as there from minutes m where m.there > few),
    every as materialized (select count(*) as there, max(i.scan_at) as horizon from inside i)
    select i.job_id, m.there > few, c.there, e.there, e.horizon
    from inside i join minutes m on m.minute = i.minute cross join crowd c cross join every e
    where m.there <= few or i.lot * c.there < sampled;
end $$;

-- How many of the wanted fires the rates of tenants allow now; the rates are charged for them. A tenant saves up for
-- one second, or for one fire if that takes longer. A tenant whose rate another scan has locked gets none. A moment in
-- the future was written before the clock was set back.
create or replace function duetime.charge_fires(tenants integer[], wanted integer[])
returns table (tenant_id integer, granted integer)
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

-- Refund a rate for fires that were not made.
create or replace function duetime.refund_fires(tenant integer, count bigint) returns void language plpgsql
set enable_seqscan = off set jit = off
as $$
begin
    update duetime.fire_rates r set used_until = r.used_until - count / t.fires_per_second * interval '1 second'
    from duetime.tenants t where t.id = tenant and r.tenant_id = tenant and t.fires_per_second is not null and count > 0;
end $$;

-- The cursors that tenants may fire from their backlogs now, oldest first, locked against other nodes, and which of the
-- tenants were charged. Each tenant that is not suspended gets the same share.
create or replace function duetime.take_from_backlogs(most integer, without uuid[], out jobs uuid[], out tenants integer[])
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
        -- At random, if more tenants wait than can have a share.
        where t.state = TenantState.ACTIVE order by random() limit most) w;
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

-- How many of their due cursors tenants may fire now, for tenants that may not fire all of them: none while they are
-- suspended or have a backlog.
create or replace function duetime.admit_fires(tenants integer[], wanted integer[])
returns table (tenant_id integer, granted integer)
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
        select t.id, w.wanted, t.fires_per_second, t.state <> TenantState.ACTIVE or (
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
