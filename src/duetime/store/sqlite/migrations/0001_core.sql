-- The three homes of a row (jobs, runs, history), and the small tables that let it move between them.
-- Times are microseconds since 1970 in UTC, ids the 16 bytes of a UUID.

create table tenants (
    id integer primary key,
    name text not null unique,
    created_at integer not null
) strict;
insert into tenants (id, name, created_at) values (1, 'default', unixepoch() * 1000000);

create table lanes (
    id integer primary key,
    tenant_id integer not null,
    queue text not null,
    tier integer not null,
    task text not null,
    trial integer not null default 0,
    unique (tenant_id, queue, tier, task, trial)
) strict;

-- Home 1: what has a future. Wide, and not rewritten by firing.
create table jobs (
    id blob primary key,
    tenant_id integer not null,
    task text not null,
    queue text not null,
    tier integer not null,
    schedule blob not null,
    recurring integer not null,
    args blob not null,
    options blob,
    timeout_ms integer,
    state integer not null default 0,
    version integer not null default 1,
    problem text,
    created_at integer not null,
    ended_at integer
) strict;
create index jobs_of_tenant on jobs (tenant_id, id);
create index jobs_ended on jobs (ended_at) where ended_at is not null;

-- When each job fires next. Narrow: this is what a fire rewrites.
create table cursors (
    job_id blob primary key,
    scan_at integer not null,
    next_fire_at integer not null,
    last_fire_at integer,
    backlog_of integer -- the tenant that may not fire it yet; null: it fires as soon as it is in view
) strict, without rowid;
create index cursors_in_view on cursors (scan_at) where backlog_of is null;
-- What a tenant may not fire yet stands apart, so that no scan passes over it.
create index cursors_in_backlogs on cursors (backlog_of, scan_at) where backlog_of is not null;

-- Home 2: what is due soon, ready, running or retrying. Small and hot. A claimed run leaves the index of its lane.
create table runs (
    id blob primary key,
    job_id blob not null,
    tenant_id integer not null,
    lane_id integer,
    home_lane integer not null,
    fence integer not null default 0,
    attempt integer not null default 0,
    lost integer not null default 0,
    cancel_requested integer not null default 0,
    claim_no integer,
    worker_id blob,
    due_at integer not null,
    ready_at integer not null,
    started_at integer,
    first_started_at integer, -- once it has started and waits again, or has begun anew: a claim does not write it
    timeout_ms integer,
    progress real,
    args blob not null,
    options blob,
    message text,
    checkpoint blob
) strict, without rowid;
create index runs_ready on runs (lane_id, ready_at, id) where worker_id is null;
create index runs_of_job on runs (tenant_id, job_id);

-- Who holds what. One row per claim, not per run: its run_ids stand one after the other in one blob.
create table workers (
    id blob primary key,
    name text not null,
    tasks text not null,
    queues text not null,
    slots integer not null,
    started_at integer not null,
    lease_until integer not null
) strict, without rowid;

create table claims (
    worker_id blob not null,
    claim_no integer not null,
    claimed_at integer not null,
    deadline integer,
    run_ids blob not null,
    standing integer not null default 0, -- 1: found by the sweep, no claim listed its runs; 2: its worker does not hold it
    primary key (worker_id, claim_no)
) strict;

-- Running runs that somebody asked to stop, by the worker that must hear of it.
create table cancels (
    worker_id blob not null,
    run_id blob not null,
    requested_at integer not null,
    primary key (worker_id, run_id)
) strict, without rowid;

-- Home 3: what is over. One row per finished attempt; the last row of a run carries its end state. Append-only, so the
-- rowid follows the time, and the pruner takes from its beginning without an index.
create table history (
    run_id blob not null,
    job_id blob not null,
    tenant_id integer not null,
    lane_id integer not null,
    fence integer not null,
    attempt integer not null,
    lost integer not null,
    attempt_state integer not null,
    end_state integer,
    failure integer,
    due_at integer not null,
    ready_at integer,
    started_at integer,
    first_started_at integer, -- of the run, where this is not its first start
    finished_at integer not null,
    worker_id blob,
    timeout_ms integer,
    args blob,
    options blob,
    result blob,
    logs blob,
    error text
) strict;
create index history_of_job on history (tenant_id, job_id, run_id) where end_state is not null;
-- With the fence, so that the newest attempts of a run are found however many it has had.
create index history_of_tenant on history (tenant_id, run_id, fence);

-- Runs whose attempts are spent. They outlive history.
create table dead_letters (
    run_id blob primary key,
    job_id blob not null,
    tenant_id integer not null,
    lane_id integer not null,
    attempt integer not null,
    lost integer not null,
    failure integer,
    error text,
    due_at integer not null,
    died_at integer not null,
    timeout_ms integer,
    args blob not null,
    options blob
) strict;
create index dead_letters_of_tenant on dead_letters (tenant_id, run_id);
create index dead_letters_by_age on dead_letters (died_at);

-- Keys that callers chose. A row that moves house keeps its key.
create table keys (
    tenant_id integer not null,
    kind text not null, -- 'i' idempotency key, 'k' key of a live job, 'r' a run that was repeated
    key text not null,
    job_id blob not null,
    run_id blob,
    fingerprint blob not null,
    next_run integer,
    answer blob, -- to a request that submitted nothing
    created_at integer not null,
    primary key (tenant_id, kind, key)
) strict, without rowid;
create index keys_by_age on keys (created_at);
