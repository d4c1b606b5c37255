-- The schema of this release: a new file gets this, a file of an older release gets there by migrations. Times are
-- microseconds since 1970 in UTC, ids the 16 bytes of a UUID, lists of ids one blob of them.
--
-- A job lives in three homes: `jobs` has a future, `runs` is due or running, `history` is over. The rest of the tables
-- move rows between these homes, or serve one feature each. postgres/schema.sql has the same tables in the same order.

-- Which releases have changed the schema, and the oldest code (by schema version) that still runs on each.
create table schema_versions (
    version integer primary key,
    oldest_code integer not null,
    applied_at integer not null
) strict;


-- Tenants and access --------------------------------------------------------------------------------------------------

-- Tenants and their limits; a limit that is null does not apply.
create table tenants (
    id integer primary key autoincrement, -- never used for another tenant
    name text not null unique,
    created_at integer not null,
    state integer not null default 0,
    tier text not null default 'standard',
    weight integer not null default 100, -- the tenant's share of the workers, relative to the others
    stored_jobs integer,
    running_runs integer,
    submissions_per_second real,
    fires_per_second real,
    quotas text, -- the other limits by name, as JSON (store/rules/quotas.py)
    encrypt_args integer not null default 0,
    defaults blob -- the options that its jobs get unless they are given others; null: none
) strict;
insert into tenants (id, name, created_at) values (1, 'default', unixepoch() * 1000000);

-- Tenants that are to be deleted, are being erased, or were: what was removed, and nothing of what it said.
create table erasures (
    tenant_id integer primary key,
    name_hash blob not null, -- answers whether a name was erased, without telling it
    state_before integer not null, -- TenantState, for a deletion that is taken back
    requested_at integer not null,
    requested_by text not null, -- the name of the operator's key
    key_id blob,
    erase_at integer not null,
    step integer not null default 0, -- ErasureStep
    started_at integer,
    finished_at integer,
    progress text not null, -- JSON: where the current pass is
    removed text not null, -- JSON: rows, files and messages, by table or kind
    problem text,
    holder blob,
    held_until integer not null default 0
) strict;

-- Only the hash of a key is stored: a copy of this table does not let anyone in.
create table api_keys (
    id blob primary key,
    tenant_id integer, -- null: a root key
    role integer not null,
    name text not null,
    hash blob not null unique,
    hint text not null,
    queues text not null,
    networks text not null, -- empty: from everywhere
    owner text, -- only jobs of this owner, with this tag; null: all
    tag text,
    created_at integer not null,
    expires_at integer,
    revoked_at integer,
    last_used_at integer
) strict;
create index api_keys_of_tenant on api_keys (coalesce(tenant_id, 0), id);

-- Browser sessions of the dashboard; like API keys, stored as hashes of their tokens.
create table sessions (
    id blob primary key,
    key_id blob not null, -- the key, or the id of the person (model/identity.py)
    hash blob not null unique,
    address text not null,
    agent text not null,
    created_at integer not null,
    last_seen_at integer not null,
    expires_at integer not null, -- each request moves it on, up to ends_at
    ends_at integer not null,
    identity blob, -- the person of an identity provider; null for a key
    tenant_ids text not null -- those that the person has a role in
) strict;
create index sessions_of_key on sessions (key_id, created_at);
create index sessions_by_end on sessions (expires_at);

-- One-time links that open a browser session.
create table login_links (
    hash blob primary key,
    key_id blob not null,
    expires_at integer not null
) strict;
create index login_links_of_key on login_links (key_id, expires_at);
create index login_links_by_end on login_links (expires_at);

-- Administrative actions. Append-only: triggers refuse updates and deletes, except while their tenant is erased.
create table audit (
    id blob primary key,
    at integer not null,
    tenant_id integer,
    key_id blob,
    actor text not null,
    action text not null,
    object text not null,
    detail text
) strict;
create index audit_of_tenant on audit (tenant_id, id);
create trigger audit_is_not_changed before update on audit
begin
    select raise(abort, 'the audit log is only added to');
end;
create trigger audit_is_not_removed before delete on audit
when not exists (select 1 from erasures e
    where e.tenant_id = old.tenant_id and e.started_at is not null and e.finished_at is null)
begin
    select raise(abort, 'the audit log is only added to');
end;

-- Secrets of the service.
create table secrets (
    name text primary key,
    value blob not null
) strict, without rowid;

-- Data keys, wrapped by a key provider: crypto/envelope.py.
create table data_keys (
    name text primary key,
    wrapped_by text not null,
    wrapped blob not null,
    created_at integer not null
) strict, without rowid;

-- Secrets that a tenant's HTTP calls may name. Encrypted above the store.
create table tenant_secrets (
    tenant_id integer not null,
    name text not null,
    value blob not null,
    hosts text not null, -- JSON lists: where it may be sent, and the roles that may name it
    roles text not null,
    created_at integer not null,
    changed_at integer not null,
    primary key (tenant_id, name)
) strict, without rowid;

-- What a tenant's HTTP calls are signed with. Several at once while a secret is rotated. Encrypted above the store.
create table signing_secrets (
    tenant_id integer not null,
    id blob not null,
    value blob not null,
    created_at integer not null,
    expires_at integer,
    primary key (tenant_id, id)
) strict, without rowid;

-- Token buckets of rate limits on requests.
create table token_buckets (
    tenant_id integer not null,
    key_id blob not null, -- zero: the bucket of the whole tenant
    level real not null,
    filled_at integer not null,
    full_at integer not null,
    primary key (tenant_id, key_id)
) strict;


-- Home 1: jobs --------------------------------------------------------------------------------------------------------

-- Jobs that have a future. Rows are wide, so firing does not rewrite them: it rewrites `cursors`.
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
    ended_at integer,
    made integer not null default 0, -- counts of a job whose cursor is gone
    missed integer not null default 0,
    followed integer not null default 0 -- the end of any of its runs is recorded in `ended`
) strict;
create index jobs_of_tenant on jobs (tenant_id, id);
create index jobs_ended on jobs (ended_at) where ended_at is not null;

-- When each job fires next. Narrow, because every fire rewrites its row.
create table cursors (
    job_id blob primary key,
    scan_at integer not null, -- when a scanner looks at it: the fire time, or earlier to make the run ahead of time
    next_fire_at integer not null,
    last_fire_at integer,
    backlog_of integer, -- the tenant that may not fire it yet; null: it fires as soon as it is in view
    exact integer not null default 0, -- decided when due: never fired ahead of its time
    made integer not null default 0,
    missed integer not null default 0,
    owed blob -- occurrences whose runs were withdrawn; the misfire policy decides about them with the missed ones
) strict, without rowid;
create index cursors_in_view on cursors (scan_at) where backlog_of is null;
-- Cursors that a tenant may not fire yet are in an index of their own, so that no scan passes over them.
create index cursors_in_backlogs on cursors (backlog_of, scan_at) where backlog_of is not null;

-- How far a tenant has used up its rate of fires: the moment at which the last granted fire is paid for.
create table fire_rates (
    tenant_id integer primary key,
    used_until integer not null default 0
) strict;

-- Keys that callers chose. They outlive the homes that their rows move through.
create table keys (
    tenant_id integer not null,
    kind text not null, -- 'i' idempotency key, 'k' key of a live job, 'r' a run that was repeated
    key text not null,
    job_id blob not null,
    run_id blob,
    fingerprint blob not null, -- of the request: the same key with another request is refused
    next_run integer,
    answer blob, -- the answer to a request that submitted nothing
    created_at integer not null,
    primary key (tenant_id, kind, key)
) strict, without rowid;
create index keys_by_age on keys (created_at);

-- What jobs are found by beside their id. Rows exist only for the labels that a job has.
create table labels (
    tenant_id integer not null,
    kind text not null, -- 'o' owner, 'n' name, 't' tag, 'k' key
    value text not null,
    job_id blob not null,
    primary key (tenant_id, kind, value, job_id)
) strict, without rowid;
create index labels_of_job on labels (job_id);

-- The distinct labels of each tenant, by the groups of three characters that they contain: what a search looks through.
-- Filled from `labels` off the hot path (engine/search_indexer.py).
create table terms (
    id integer primary key,
    tenant_id integer not null,
    kind text not null,
    value text not null,
    folded text not null,
    unique (tenant_id, kind, value)
) strict;
create virtual table term_grams using fts5(folded, content = 'terms', content_rowid = 'id', tokenize = 'trigram', detail = none);
create trigger terms_added after insert on terms begin
    insert into term_grams (rowid, folded) values (new.id, new.folded);
end;
create trigger terms_removed after delete on terms begin
    insert into term_grams (term_grams, rowid, folded) values ('delete', old.id, old.folded);
end;

-- How far that has come.
create table search_index (
    one integer primary key check (one = 1),
    body blob not null default x'',
    holder blob,
    held_until integer not null default 0
) strict;
insert into search_index (one) values (1);

-- Deleted jobs: hidden from lists while their runs stay in history.
create table deleted_jobs (
    job_id blob primary key,
    tenant_id integer not null,
    deleted_at integer not null
) strict, without rowid;
create index deleted_jobs_by_age on deleted_jobs (deleted_at);

-- Large arguments that jobs refer to.
create table payloads (
    id blob primary key,
    tenant_id integer not null,
    created_at integer not null,
    body blob not null,
    size integer not null generated always as (length(body)) stored
) strict;
create index payloads_of_tenant on payloads (tenant_id, size);
create table payload_refs (
    payload_id blob not null,
    job_id blob not null,
    tenant_id integer not null,
    primary key (payload_id, job_id)
) strict, without rowid;

-- Days on which jobs do not fire.
create table calendars (
    tenant_id integer not null,
    name text not null,
    dates text not null, -- a JSON list
    version integer not null default 1, -- raised when the dates change
    primary key (tenant_id, name)
) strict, without rowid;
-- Which jobs use a calendar. `version` is the calendar's when the job's cursor was computed: a lower one is stale.
create table calendar_users (
    tenant_id integer not null,
    name text not null,
    job_id blob not null,
    version integer not null,
    primary key (tenant_id, name, job_id)
) strict, without rowid;
create index calendar_users_by_job on calendar_users (job_id);

-- What tasks declare: defaults for their jobs (model/defaults.py), and the schema of their arguments. Beside the workers,
-- because it holds while no worker is up, too.
create table tasks (
    tenant_id integer, -- null: declared by a worker that serves all tenants
    name text not null,
    said blob, -- null: no defaults
    arguments blob, -- a JSON schema; null: not known
    digest text, -- of the schema
    told_at integer not null, -- the newest declaration holds
    seen_at integer not null -- when a live worker had the task: old ones are pruned
) strict;
create unique index tasks_by_name on tasks (coalesce(tenant_id, -1), name);


-- Home 2: runs --------------------------------------------------------------------------------------------------------

-- Lanes: a queue of runs for each tenant, queue, tier and task. Awake while it has runs, and for a while after; only
-- awake lanes are looked at and kept in memory. A sleeping lane keeps its id, because history refers to it.
create table lanes (
    id integer primary key autoincrement, -- never used for another lane
    tenant_id integer not null,
    queue text not null,
    tier integer not null,
    task text not null,
    trial integer not null default 0,
    keyed integer not null default 0, -- its runs have keys; kept apart so that claims from other lanes stay short
    awake integer not null default 0,
    changed_at integer not null default 0,
    unique (tenant_id, queue, tier, task, trial, keyed)
) strict;
create index lanes_awake on lanes (id) where awake;
create index lanes_asleep on lanes (changed_at) where not awake;

-- Which lanes woke and fell asleep: readers that keep lanes in memory read what is new.
create table lane_changes (
    turn integer primary key autoincrement,
    lane_id integer not null,
    awake integer not null,
    at integer not null
) strict;

-- Runs that are due soon, ready, running or retrying. Small and hot. A claimed run leaves the index of its lane.
create table runs (
    id blob primary key,
    job_id blob not null,
    tenant_id integer not null,
    lane_id integer, -- null: it waits for something else than time (`waits`); negative: parked by a full key
    home_lane integer not null,
    fence integer not null default 0, -- raised by each claim: only its holder may complete the run
    attempt integer not null default 0,
    lost integer not null default 0,
    cancel_requested integer not null default 0,
    claim_no integer,
    worker_id blob,
    due_at integer not null,
    ready_at integer not null,
    started_at integer,
    first_started_at integer, -- set when it waits again or begins anew: a claim does not write it
    timeout_ms integer,
    progress real,
    args blob not null,
    options blob,
    message text,
    checkpoint blob,
    waits integer not null default 0, -- what a run without a lane waits for: WaitsFor
    manual integer not null default 0, -- triggered or backfilled: edits and pauses do not withdraw it
    parked_by integer, -- the limit whose key is full
    put_off_by integer, -- the limit whose rate is used up; `ready_at` is the run's moment
    followed integer not null default 0 -- its end is recorded in `ended`
) strict, without rowid;
create index runs_ready on runs (lane_id, ready_at, id) where worker_id is null;
create index runs_of_job on runs (tenant_id, job_id);
create index runs_blocked on runs (tenant_id, job_id) where lane_id is null and waits = WaitsFor.OTHER_RUNS;
create index runs_parked on runs (parked_by, due_at, id) where parked_by is not null;
create index runs_put_off on runs (put_off_by, ready_at, id) where put_off_by is not null;
create index runs_followed on runs (id) where followed;

-- Workers and their leases.
create table workers (
    id blob primary key,
    name text not null,
    tasks text not null,
    queues text not null,
    slots integer not null,
    started_at integer not null,
    lease_until integer not null,
    tenant_id integer, -- null: works for all tenants
    version text not null default '',
    heard_at integer not null default 0,
    held_since integer not null default 0, -- since when the lease has held without a break; timeouts count from here,
        -- because a break means that the clock stepped or the machine slept
    key_id blob, -- the API key and the token of a remote worker's session; null for a worker in this process
    token_hash blob,
    consumes text not null default '[]' -- the streams that it consumes, at brokers whose streams have parts
) strict, without rowid;

-- Workers that left or were lost, for a day: what a missing worker did, and what it held.
create table past_workers (
    id blob primary key,
    tenant_id integer, -- null: worked for all tenants
    name text not null,
    tasks text not null,
    queues text not null,
    slots integer not null,
    started_at integer not null,
    heard_at integer not null,
    version text not null,
    ended_at integer not null,
    lost integer not null, -- its lease expired; 0: it left by itself
    held text not null, -- how many runs it held then, by tenant, as JSON
    run_ids text not null -- some of them, of each tenant, as hex digits
) strict;
create index past_workers_by_age on past_workers (ended_at);
create index past_workers_of_tenant on past_workers (coalesce(tenant_id, -1), ended_at, id);
-- The newest of each tenant: a worker that comes and goes fills no table.
create trigger past_workers_newest after insert on past_workers begin
    delete from past_workers where id in (
        select id from past_workers where coalesce(tenant_id, -1) = coalesce(new.tenant_id, -1)
        order by ended_at desc, id desc limit -1 offset 100);
end;

-- Which runs a worker holds: one row per claim, not per run.
create table claims (
    worker_id blob not null,
    claim_no integer not null,
    claimed_at integer not null,
    deadline integer,
    run_ids blob not null,
    standing integer not null default 0, -- ClaimStanding
    primary key (worker_id, claim_no)
) strict;

-- Requests to cancel running runs, by the worker that must hear of them.
create table cancels (
    worker_id blob not null,
    run_id blob not null,
    requested_at integer not null,
    replaced integer not null default 0, -- for a later occurrence, not on request
    primary key (worker_id, run_id)
) strict, without rowid;

-- Runs that were handed over to their receiver (HTTP 202). They keep their worker's id, no claim lists them, and this is
-- their deadline.
create table handovers (
    run_id blob primary key,
    tenant_id integer not null,
    fence integer not null,
    handed_at integer not null,
    deadline integer not null
) strict, without rowid;
create index handovers_by_deadline on handovers (deadline);

-- What running attempts have logged so far. Beside `runs`, because few attempts log before they end.
create table live_logs (
    run_id blob primary key,
    tenant_id integer not null,
    fence integer not null,
    logs blob not null,
    at integer not null
) strict, without rowid;
create index live_logs_by_age on live_logs (at);

-- How often recurring jobs, and tasks (job_id is zero), have lost workers in a row: model/suspicion.py.
create table suspects (
    tenant_id integer not null,
    task text not null,
    job_id blob not null,
    losses integer not null,
    lost_at integer not null, -- when the last loss was noticed: pauses count from here
    died_at integer not null, -- when the lost worker was last heard of: an attempt that ended since clears it
    primary key (tenant_id, task, job_id)
) strict, without rowid;
create index suspects_by_job on suspects (job_id);


-- Home 3: history -----------------------------------------------------------------------------------------------------

-- One row per finished attempt; the last row of a run carries its end state. Append-only, so the rowid follows the time,
-- and the pruner takes from the beginning without an index.
create table history (
    run_id blob not null,
    job_id blob not null,
    tenant_id integer not null,
    lane_id integer not null,
    fence integer not null,
    attempt integer not null,
    lost integer not null,
    attempt_state integer not null,
    end_state integer, -- RunState; null: the run went on
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
-- Ends that are rare and searched for. Success, which is common, writes to neither index.
create index history_ends_of_jobs on history (tenant_id, end_state, job_id, run_id)
    where end_state is not null and end_state <> RunState.SUCCEEDED;
create index history_ends_of_runs on history (tenant_id, end_state, run_id)
    where end_state is not null and end_state <> RunState.SUCCEEDED;
-- Rows whose job has a retention of its own, by when it is over; the blob is `"retention":`, as in `prune_kept`.
create index history_kept on history (finished_at + json_extract(cast(options as text), '$.retention') * 1000000)
    where instr(options, x'22726574656e74696f6e223a') > 0;

-- What tenants have used, by the UTC day on which attempts finished. Counted from history, which is removed later.
create table usage (
    tenant_id integer not null,
    day integer not null, -- from 1970-01-01
    queue text not null,
    runs integer not null, -- that ended, but skipped ones
    failed integer not null,
    attempts integer not null,
    run_us integer not null, -- microseconds in which attempts ran
    bytes integer not null, -- of arguments, results, logs and errors, as they are stored
    primary key (tenant_id, day, queue)
) strict, without rowid;
create index usage_by_day on usage (day);
-- Up to which row of history it was counted, and when.
create table usage_place (
    one integer primary key check (one = 1),
    row integer not null,
    counted_at integer not null
) strict;
insert into usage_place (one, row, counted_at) values (1, 0, 0);

-- What ended in each minute of the last day, and in each hour of the last week (model/trends.py).
create table trends (
    tenant_id integer not null,
    step integer not null, -- seconds: a minute or an hour
    at integer not null,
    body blob not null,
    primary key (tenant_id, step, at)
) strict, without rowid;
create index trends_by_age on trends (step, at);

-- Carried runs that have ended or landed: an id acts once.
create table spent (
    run_id blob primary key
) strict, without rowid;

-- Cold history (store/protocol/archives.py): the files that hold rows of history, and the state of each day. Days are
-- numbered from 1970-01-01.
create table archive_parts (
    tenant_id integer not null,
    day integer not null,
    name text not null,
    rows integer not null,
    read integer not null, -- rows that were read for it, including those that it does not hold
    bytes integer not null,
    checksum text not null,
    first_run blob not null,
    last_run blob not null,
    pass_no integer not null,
    expires integer not null, -- the day on which it is deleted
    keys text not null, -- names of encryption keys, with commas
    removed integer not null default 0, -- whether rows of it were removed from history
    primary key (tenant_id, day, name)
) strict;
create index archive_parts_by_run on archive_parts (tenant_id, last_run);
create index archive_parts_by_day on archive_parts (day);
create index archive_parts_by_end on archive_parts (expires);
create table archive_days (
    day integer primary key,
    pass_no integer not null,
    claimant blob,
    claimed_until integer,
    archived_at integer, -- since when all its rows are in files
    rows integer not null default 0, -- how many these were
    mark integer, -- SQLite: up to this row of history
    released_at integer, -- when the files were compared again, before rows are removed
    removed_at integer, -- when rows were first removed
    dropped_at integer, -- PostgreSQL only
    restored_until integer,
    problem text
) strict;

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
    options blob,
    fingerprint text -- groups dead letters with the same error
) strict;
create index dead_letters_of_tenant on dead_letters (tenant_id, run_id);
create index dead_letters_by_age on dead_letters (died_at);
create index dead_letters_of_job on dead_letters (job_id);
create index dead_letters_by_fingerprint on dead_letters (tenant_id, fingerprint, run_id);


-- Queues and limits ---------------------------------------------------------------------------------------------------

-- Queues that were paused; the others exist because lanes or limits name them.
create table queues (
    tenant_id integer not null,
    name text not null,
    paused_at integer,
    primary key (tenant_id, name)
) strict, without rowid;

-- Queues whose plain runs go through a stream. A row for each generation: an earlier one is consumed until it is empty.
create table stream_queues (
    tenant_id integer not null,
    queue text not null,
    generation integer not null,
    address text not null, -- encrypted above the store: it may contain a password
    settings blob not null, -- the others
    current integer not null, -- runs are published to it
    retired integer not null default 0, -- it was found empty
    changed_at integer not null, -- when it became, or ceased to be, current
    primary key (tenant_id, queue, generation)
) strict, without rowid;
create unique index stream_queues_current on stream_queues (tenant_id, queue) where current;

-- Limits on what may run and start. Rows of keys are made by the first run that names them.
create table limits (
    id integer primary key,
    tenant_id integer not null,
    kind integer not null, -- LimitKind
    name text not null,
    running integer,
    rate integer,
    period integer,
    used_at integer not null,
    unique (tenant_id, kind, name)
) strict;
create index limits_set on limits (kind) where kind in (LimitKind.QUEUE, LimitKind.TARGET);

-- Which runs hold a slot of a limit. A row counts only while its run is claimed under this fence, so it cannot leak.
create table holds (
    limit_id integer not null,
    run_id blob not null,
    fence integer not null,
    primary key (limit_id, run_id)
) strict, without rowid;
create index holds_of_run on holds (run_id);

-- How many runs have started under a rate, in steps of a hundredth of its period; a row counts until `until`.
create table starts (
    limit_id integer not null,
    until integer not null,
    count integer not null,
    primary key (limit_id, until)
) strict, without rowid;
create trigger limits_gone after delete on limits begin
    delete from starts where limit_id = old.id;
end;

-- Circuit breakers before targets that fail.
create table breakers (
    tenant_id integer not null,
    target text not null,
    state integer not null default 0, -- BreakerState
    since integer not null,
    until integer,
    trips integer not null default 0,
    primary key (tenant_id, target)
) strict, without rowid;

-- Attempts at a target by the second, for as long as a breaker looks back.
create table attempts (
    tenant_id integer not null,
    target text not null,
    at integer not null,
    tried integer not null,
    failed integer not null,
    retried integer not null,
    primary key (tenant_id, target, at)
) strict, without rowid;

-- The queues of tenants, one row for each thing that names one. `seen_at`: until when it was in use; null: it is in use.
create view queue_names (tenant_id, name, seen_at) as
    select tenant_id, name, null from queues
    union all
    select tenant_id, name, null from limits where kind = LimitKind.QUEUE
    union all
    select tenant_id, queue, case when not awake then changed_at end from lanes
    where queue <> 'duetime.notifications' -- the service's own: no caller asked for it
    union all
    select tenant_id, queue, null from stream_queues;


-- Dependencies --------------------------------------------------------------------------------------------------------

-- Ends of followed runs that were not handed on yet. Written in the transaction of the end itself.
create table ended (
    run_id blob primary key,
    job_id blob not null,
    tenant_id integer not null,
    end_state integer not null,
    started_at integer,
    finished_at integer not null
) strict, without rowid;
create index ended_by_job on ended (job_id);

-- Jobs that wait for other jobs: by which rule, and how many of the others have ended how.
create table dependents (
    job_id blob primary key,
    tenant_id integer not null,
    run_id blob not null,
    need integer not null,
    wanted integer not null,
    otherwise integer not null,
    unended integer not null,
    met integer not null,
    unmet integer not null,
    settled integer not null
) strict, without rowid;

-- Which job waits for which.
create table edges (
    parent_id blob not null,
    child_id blob not null,
    tenant_id integer not null,
    state integer, -- how the parent ended, once that was counted
    primary key (parent_id, child_id)
) strict, without rowid;
create index edges_of_child on edges (child_id, parent_id);

create table graphs (
    id blob primary key,
    tenant_id integer not null,
    name text,
    nodes integer not null,
    unended integer not null,
    created_at integer not null,
    ended_at integer,
    status text not null default 'RUNNING' -- after its end: how it ended
) strict;
create index graphs_of_tenant on graphs (tenant_id, id);
create index graphs_ended on graphs (ended_at) where ended_at is not null;
create index graphs_alive on graphs (tenant_id) where ended_at is null;

-- The jobs of a graph. They keep what the graph's page shows after the jobs themselves are gone.
create table nodes (
    job_id blob primary key,
    graph_id blob not null,
    place integer not null,
    tenant_id integer not null,
    name text not null,
    task text not null,
    run_id blob not null,
    state integer, -- how its newest run ended
    started_at integer,
    finished_at integer
) strict;
create index nodes_of_graph on nodes (graph_id, place);

-- Jobs that run after each run of another job.
create table followers (
    parent_id blob not null,
    job_id blob not null,
    tenant_id integer not null,
    wanted integer not null,
    primary key (parent_id, job_id)
) strict, without rowid;
create index followers_by_job on followers (job_id);


-- Events, notifications and facts -------------------------------------------------------------------------------------

-- What changed: a row per batch, tenant and kind. Written only while `listening` says that a reader exists.
create table events (
    id integer primary key autoincrement,
    at integer not null,
    kind integer not null, -- EventKind
    tenant_id integer not null,
    ids blob not null
) strict;
create index events_by_age on events (at);

-- Until when a reader of events exists.
create table listening (
    one integer primary key check (one = 1),
    until integer not null
) strict;
insert into listening (one, until) values (1, 0);

-- What tenants want to be notified of.
create table subscriptions (
    tenant_id integer not null,
    name text not null,
    body blob not null,
    address text not null, -- encrypted above the store: it is enough to post there
    primary key (tenant_id, name)
) strict, without rowid;

-- Messages of other programs that create jobs, and how far they were read.
create table sources (
    tenant_id integer not null,
    name text not null,
    body blob not null,
    version integer not null default 1,
    paused integer not null,
    stopped integer not null default 0,
    marks blob not null,
    received integer not null default 0,
    made integer not null default 0,
    repeated integer not null default 0,
    bad integer not null default 0,
    errors blob not null,
    reason text,
    holder blob,
    held_until integer not null default 0,
    primary key (tenant_id, name)
) strict, without rowid;

-- Who signs tokens for the users of a tenant: public keys only.
create table issuers (
    tenant_id integer not null,
    name text not null,
    id blob not null,
    body blob not null,
    created_at integer not null,
    changed_at integer not null,
    primary key (tenant_id, name)
) strict, without rowid;

-- Actions on everything that a filter matches, and how far they are.
create table bulk_actions (
    id blob primary key,
    tenant_id integer not null,
    body blob not null,
    key_id blob,
    actor text not null,
    below blob, -- where the list continues; null at its beginning
    done integer not null default 0,
    skipped integer not null default 0,
    failed integer not null default 0,
    errors blob not null,
    created_at integer not null,
    finished_at integer,
    stopped integer not null default 0,
    holder blob,
    held_until integer not null default 0
) strict, without rowid;
create index bulk_actions_of_tenant on bulk_actions (tenant_id, id);
create index bulk_actions_to_do on bulk_actions (held_until) where finished_at is null;

-- How far the event stream was turned into notifications; `number` is null while no subscription exists.
create table notifying (
    one integer primary key check (one = 1),
    number integer,
    holder blob,
    taken_at integer not null default 0,
    held_until integer not null default 0,
    read_at integer -- up to when the events were read
) strict;
insert into notifying (one) values (1);

-- Alert rules and their states (model/alert.py).
create table alerts (
    tenant_id integer not null,
    name text not null,
    rule blob not null,
    hears integer not null, -- it learns of runs from events
    open integer not null default 0,
    value real,
    wrong_since integer,
    counts_from integer, -- no time before it counts
    good_at integer, -- the last success that was heard of
    changed_at integer,
    checked_at integer not null default 0,
    judged_at integer,
    pauses blob, -- queues that were paused a while ago, as JSON
    version integer not null default 0, -- raised when it opens or closes
    told integer not null default 0, -- the version whose notifications are stored
    message blob, -- of the newest version
    primary key (tenant_id, name)
) strict, without rowid;
create index alerts_by_check on alerts (checked_at);
create index alerts_hearing on alerts (tenant_id) where hears;

-- Jobs that run elsewhere and report here (model/checkin.py). Only the hash of a check-in's token is stored.
create table checkins (
    tenant_id integer not null,
    name text not null,
    body blob not null,
    hash blob not null unique,
    paused integer not null,
    created_at integer not null,
    ping text, -- the last one, and what it brought
    pinged_at integer,
    exit_code integer,
    note text,
    pings integer not null default 0,
    started_at integer, -- of a run that has not reported its end
    succeeded_at integer,
    counts_from integer, -- the next ping is expected after it
    revision integer not null default 0, -- raised by pings and changes
    judge_at integer, -- when it may be late; null: not before the next ping
    open integer not null default 0,
    reason text,
    changed_at integer,
    version integer not null default 0, -- raised when it opens or closes
    told integer not null default 0, -- the version whose notifications are stored
    message blob, -- of the newest version
    primary key (tenant_id, name)
) strict, without rowid;
create index checkins_to_judge on checkins (judge_at) where judge_at is not null;

-- Facts about this database, such as the time zone database that cursors were computed with.
create table meta (
    name text primary key,
    value text not null
) strict, without rowid;

-- What was seen of the machine's clock, for a process that has just started and has seen nothing of it yet.
create table clock_watch (
    one integer primary key check (one = 1),
    seen_at integer, -- what it showed when it was last looked at
    stepped_at integer, -- what it showed when it was first seen after a step forward, or after nothing looked for a while
    trusted_at integer, -- the time from which the pruner counts ages
    served_at integer, -- what it showed when a server last looked, which pings could reach
    served_since integer, -- the same, after no server had looked for a while
    readings integer not null default 0, -- how many were kept: if there are fewer than before, the database went back
    rewound_at integer, -- when a node last found that the database had gone back
    rewound_from integer, -- what the clock showed at the last reading that is lost
    rewound_to integer -- what it showed at the last reading that is left
) strict;
insert into clock_watch (one) values (1);


-- Quotas --------------------------------------------------------------------------------------------------------------

-- Each refuses a row with which a tenant would have more than its quota (store/rules/quotas.py).
-- template within(table, kind, used, counted)
create trigger {kind}_within_quota after insert on {table}
when (select {used} from {table} where {counted})
    > (select quotas ->> '$.{kind}' from tenants where id = new.tenant_id)
begin
    select raise(abort, 'duetime quota {kind}');
end;
-- end
{within: payloads | payloads | count(*) | tenant_id = new.tenant_id}
{within: payloads | payload_bytes | sum(size) | tenant_id = new.tenant_id}
{within: calendars | calendars | count(*) | tenant_id = new.tenant_id}
{within: api_keys | api_keys | count(*) | coalesce(tenant_id, 0) = new.tenant_id
    and revoked_at is null and (expires_at is null or expires_at > new.created_at)}
{within: workers | workers | count(*) | tenant_id = new.tenant_id and lease_until > new.started_at}
{within: workers | worker_tasks | sum(json_array_length(tasks))
    | tenant_id = new.tenant_id and lease_until > new.started_at}
{within: tenant_secrets | secrets | count(*) | tenant_id = new.tenant_id}
{within: signing_secrets | signing_secrets | count(*) | tenant_id = new.tenant_id
    and (expires_at is null or expires_at > new.created_at)}
{within: subscriptions | subscriptions | count(*) | tenant_id = new.tenant_id}
{within: sources | sources | count(*) | tenant_id = new.tenant_id}
{within: issuers | issuers | count(*) | tenant_id = new.tenant_id}
{within: bulk_actions | bulk_actions | count(*) | tenant_id = new.tenant_id and finished_at is null}
{within: alerts | alerts | count(*) | tenant_id = new.tenant_id}
{within: checkins | checkins | count(*) | tenant_id = new.tenant_id}

-- template queues_within(table, name, at, counted)
create trigger {table}_within_queues before insert on {table}
when {counted} not exists (select 1 from queue_names where tenant_id = new.tenant_id and name = new.{name})
    and 1 + (
        select count(distinct name) from queue_names
        where tenant_id = new.tenant_id and (seen_at is null or seen_at > new.{at} - 86400000000))
    > (select quotas ->> '$.queues' from tenants where id = new.tenant_id)
begin
    select raise(abort, 'duetime quota queues');
end;
-- end
{queues_within: queues | name | paused_at | }
{queues_within: stream_queues | queue | changed_at | }
{queues_within: limits | name | used_at | new.kind = LimitKind.QUEUE and}
