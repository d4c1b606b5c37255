-- Policies of recurring jobs: what is decided when a fire is due, and what is counted of it.

alter table duetime.cursors
    add column exact boolean not null default false, -- decided when due: never fired ahead of its time
    add column made bigint not null default 0,
    add column missed bigint not null default 0;

-- A run without a lane waits for something else than time; 1: for the other runs of its job.
alter table duetime.runs
    add column waits smallint not null default 0,
    add column manual boolean not null default false; -- triggered or backfilled: no edit or pause takes it back
create index runs_blocked on duetime.runs (tenant_id, job_id) where lane_id is null;

-- The cursors in view, soonest first, held against other nodes.
create function duetime.cursors_in_view(most integer)
returns table (
    job_id uuid, tenant_id integer, queue text, tier smallint, task text, schedule bytea, next_fire_at timestamptz,
    options bytea, made bigint, exact boolean)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    select c.job_id, j.tenant_id, j.queue, j.tier, j.task, j.schedule, c.next_fire_at, j.options, c.made, c.exact
    from (
        select c.job_id, c.next_fire_at, c.made, c.exact from duetime.cursors c where c.scan_at <= duetime.now()
        order by c.scan_at limit cursors_in_view.most for update skip locked
    ) c
    join duetime.jobs j on j.id = c.job_id;
end $$;

-- No cursor shall stand where a scanner cannot read it.
alter table duetime.cursors
    add constraint cursors_can_be_read check (
        scan_at >= '0001-01-01Z' and scan_at < '10000-01-01Z'
        and next_fire_at >= '0001-01-01Z' and next_fire_at < '10000-01-01Z') not valid;
