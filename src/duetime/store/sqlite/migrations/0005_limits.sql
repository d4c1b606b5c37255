-- Limits: how many runs may run at once, and how many may start in a period. Breakers before targets that fail.

-- Runs with keys of their own stand in lanes apart, so that claims from all other lanes stay as short as they were.
alter table lanes rename to old_lanes;
-- A lane is awake while it has runs, and for a while after: only those are looked at and kept in memory. One that is
-- asleep costs nothing, keeps its id for what history says of it, and is woken before a run is stored in it.
create table lanes (
    id integer primary key autoincrement, -- never used for another lane
    tenant_id integer not null,
    queue text not null,
    tier integer not null,
    task text not null,
    trial integer not null default 0,
    keyed integer not null default 0,
    awake integer not null default 0,
    changed_at integer not null default 0,
    unique (tenant_id, queue, tier, task, trial, keyed)
) strict;
insert into lanes (id, tenant_id, queue, tier, task, trial) select id, tenant_id, queue, tier, task, trial from old_lanes;
drop table old_lanes;
create index lanes_awake on lanes (id) where awake;
create index lanes_asleep on lanes (changed_at) where not awake;

-- Which lanes woke and fell asleep: those who keep lanes in memory read what is new.
create table lane_changes (
    turn integer primary key autoincrement,
    lane_id integer not null,
    awake integer not null,
    at integer not null
) strict;

-- How far a tenant's rate of fires is used up: it fires as if one fire took one part of a second, and this is when the last
-- one is over.
create table fire_rates (
    tenant_id integer primary key,
    used_until integer not null default 0
) strict;

-- What is decided by who may start. Rows of keys are made by the first run that names them.
create table limits (
    id integer primary key,
    tenant_id integer not null,
    kind integer not null, -- 1 tenant, 2 queue, 3 concurrency key, 4 rate key, 5 target (what its breaker lets through)
    name text not null,
    running integer,
    rate integer,
    period integer,
    used_at integer not null,
    unique (tenant_id, kind, name)
) strict;
create index limits_set on limits (kind) where kind in (2, 5);

-- The queues of tenants, each as often as something names it; `seen_at`: until when it was in use, null: it is now.
create view queue_names (tenant_id, name, seen_at) as
    select tenant_id, name, null from queues
    union all
    select tenant_id, name, null from limits where kind = 2
    union all
    select tenant_id, queue, case when not awake then changed_at end from lanes
    where queue <> 'duetime.notifications'; -- which no caller has asked for
create trigger queues_within_quota before insert on queues
when not exists (select 1 from queue_names where tenant_id = new.tenant_id and name = new.name)
    and 1 + (
        select count(distinct name) from queue_names
        where tenant_id = new.tenant_id and (seen_at is null or seen_at > new.paused_at - 86400000000))
    > (select quotas ->> '$.queues' from tenants where id = new.tenant_id)
begin
    select raise(abort, 'duetime quota queues');
end;
create trigger limits_within_quota before insert on limits
when new.kind = 2 and not exists (select 1 from queue_names where tenant_id = new.tenant_id and name = new.name)
    and 1 + (
        select count(distinct name) from queue_names
        where tenant_id = new.tenant_id and (seen_at is null or seen_at > new.used_at - 86400000000))
    > (select quotas ->> '$.queues' from tenants where id = new.tenant_id)
begin
    select raise(abort, 'duetime quota queues');
end;

-- Who runs under which limit. A row counts only as long as its run is claimed under this fence: it cannot leak.
create table holds (
    limit_id integer not null,
    run_id blob not null,
    fence integer not null,
    primary key (limit_id, run_id)
) strict, without rowid;
create index holds_of_run on holds (run_id);

-- How many have started, in steps of a hundredth of the period; a row counts until its time is over.
create table starts (
    limit_id integer not null,
    until integer not null,
    count integer not null,
    primary key (limit_id, until)
) strict, without rowid;
create trigger limits_gone after delete on limits begin
    delete from starts where limit_id = old.id;
end;

-- A run whose key is full waits in no lane: its lane is turned to the negative, and `parked_by` names the limit.
alter table runs add column parked_by integer;
create index runs_parked on runs (parked_by, due_at, id) where parked_by is not null;

-- A run whose rate is used up waits in its lane: its moment is `ready_at`, and `put_off_by` names the limit.
alter table runs add column put_off_by integer;
create index runs_put_off on runs (put_off_by, ready_at, id) where put_off_by is not null;

create table breakers (
    tenant_id integer not null,
    target text not null,
    state integer not null default 0, -- 0 closed, 1 open, 2 probing, 3 recovering
    since integer not null,
    until integer,
    trips integer not null default 0,
    primary key (tenant_id, target)
) strict, without rowid;

-- What attempts at a target came to, by the second; kept for as long as a breaker looks back.
create table attempts (
    tenant_id integer not null,
    target text not null,
    at integer not null,
    tried integer not null,
    failed integer not null,
    retried integer not null,
    primary key (tenant_id, target, at)
) strict, without rowid;

-- How much tenants and keys may still use of what is limited by time.
create table token_buckets (
    tenant_id integer not null,
    key_id blob not null, -- zero: of the tenant as a whole
    level real not null,
    filled_at integer not null,
    full_at integer not null,
    primary key (tenant_id, key_id)
) strict;
