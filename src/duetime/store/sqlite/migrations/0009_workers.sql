-- What people want to know of a worker: which duetime it is, when it was heard of last, what its attempts have logged.
alter table workers add column version text not null default '';
alter table workers add column heard_at integer not null default 0;

-- Since when its lease has held without a break. One that is renewed after it was over was broken by a clock that stepped
-- or a machine that slept: what of a timeout had passed before that, the database's clock cannot tell.
alter table workers add column held_since integer not null default 0;

-- The session of a remote worker: the key that opened it, and the hash of the token that its requests carry. Both are null
-- for a worker that has the database itself.
alter table workers add column key_id blob;
alter table workers add column token_hash blob;

-- What running attempts have logged so far. Beside the runs, because few say anything before they end.
create table live_logs (
    run_id blob primary key,
    fence integer not null,
    logs blob not null,
    at integer not null
) strict, without rowid;
create index live_logs_by_age on live_logs (at);

-- How often recurring jobs, and tasks (under the id of no job), have lost workers in a row: `model/suspicion.py`.
create table suspects (
    tenant_id integer not null,
    task text not null,
    job_id blob not null,
    losses integer not null,
    lost_at integer not null,
    primary key (tenant_id, task, job_id)
) strict, without rowid;
create index suspects_by_job on suspects (job_id);

-- What nodes have seen of the clock, for a process that has just started and remembers nothing of it.
create table clock_watch (
    one integer primary key check (one = 1),
    seen_at integer, -- what it showed when a node looked last
    stepped_at integer, -- what it showed when it was first seen after a step forward, or after a time in which no node looked
    trusted_at integer -- the time from which the pruner counts ages
) strict;
insert into clock_watch (one) values (1);
