-- Policies of recurring jobs: what is decided when a fire is due, and what is counted of it.

alter table duetime.cursors
    add column exact boolean not null default false, -- decided when due: never fired ahead of its time
    add column made bigint not null default 0,
    add column missed bigint not null default 0,
    add column owed bytea; -- occurrences whose runs were withdrawn, to be decided about together with what is missed

-- A run without a lane waits for something else than time; 1: for the other runs of its job.
alter table duetime.runs
    add column waits smallint not null default 0,
    add column manual boolean not null default false; -- triggered or backfilled: no edit or pause takes it back
create index runs_blocked on duetime.runs (tenant_id, job_id) where lane_id is null;

-- Jobs by their ids, in no order, as they are now: volatile, so that what was edited while a cursor was waited for is seen.
-- By a bitmap of their pages, which are asked for many at a time: of millions of jobs most are on disk when they fire, and
-- read one after the other they take longer than everything else together.
create function duetime.jobs_by_id(ids uuid[]) returns setof duetime.jobs
language plpgsql volatile rows 1000
set enable_seqscan = off set enable_indexscan = off set enable_bitmapscan = on set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    return query select j.* from duetime.jobs j where j.id = any(jobs_by_id.ids);
end $$;
-- When some jobs fire next, read the same way.
create function duetime.next_fires(jobs uuid[]) returns table (job_id uuid, next_fire_at timestamptz)
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

-- The cursors in view, soonest first, held against other nodes; those that tenants may fire of their backlogs first, up to
-- half of them. `turn` says where each comes from: 0 from no backlog, 1 from one, 2 from one under a rate that has been
-- charged for it. The join is by hashing: any other one would compare each cursor with each job. `since` is a low-water
-- mark, and `without` are jobs that this node passes by.
create function duetime.cursors_in_view(
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

-- No cursor shall stand where a scanner cannot read it.
alter table duetime.cursors
    add constraint cursors_can_be_read check (
        scan_at >= '0001-01-01Z' and scan_at < '10000-01-01Z'
        and next_fire_at >= '0001-01-01Z' and next_fire_at < '10000-01-01Z') not valid;
