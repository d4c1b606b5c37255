-- What people want to know of a worker: which duetime it is, when it was heard of last, what its attempts have logged.
alter table duetime.workers add column version text not null default '';
alter table duetime.workers add column heard_at timestamptz not null default pg_catalog.now();

-- Since when its lease has held without a break. One that is renewed after it was over was broken by a clock that stepped
-- or a machine that slept: what of a timeout had passed before that, the database's clock cannot tell.
alter table duetime.workers add column held_since timestamptz not null default pg_catalog.now();

-- The session of a remote worker: the key that opened it, and the hash of the token that its requests carry. Both are null
-- for a worker that has the database itself.
alter table duetime.workers add column key_id uuid;
alter table duetime.workers add column token_hash bytea;

-- What running attempts have logged so far. Beside the runs, because few say anything before they end, and their rows
-- are rewritten as a whole.
create table duetime.live_logs (
    run_id uuid primary key,
    tenant_id integer not null,
    fence integer not null,
    logs bytea not null,
    at timestamptz not null
);
create index live_logs_by_age on duetime.live_logs (at);
alter table duetime.live_logs enable row level security;
create policy own on duetime.live_logs to duetime_tenant using (tenant_id = any (array[duetime.current_tenant()]));
grant select, insert, update, delete on duetime.live_logs to duetime_tenant;

-- How often recurring jobs, and tasks (under the id of no job), have lost workers in a row: `model/suspicion.py`.
create table duetime.suspects (
    tenant_id integer not null,
    task text collate "C" not null,
    job_id uuid not null,
    losses integer not null,
    lost_at timestamptz not null,
    primary key (tenant_id, task, job_id)
);
create index suspects_by_job on duetime.suspects (job_id);
alter table duetime.suspects enable row level security;
create policy own on duetime.suspects to duetime_tenant using (tenant_id = any (array[duetime.current_tenant()]));
grant select on duetime.suspects to duetime_tenant;

-- What nodes have seen of the clock, for a process that has just started and remembers nothing of it.
create table duetime.clock_watch (
    one boolean primary key default true check (one),
    seen_at timestamptz, -- what it showed when a node looked last
    stepped_at timestamptz, -- what it showed when it was first seen after a step forward, or after a time in which no node looked
    trusted_at timestamptz -- the time from which the pruner counts ages
) with (fillfactor = 50);
insert into duetime.clock_watch default values;
