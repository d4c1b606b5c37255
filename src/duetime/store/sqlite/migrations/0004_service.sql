-- The service around the homes: tenants, keys, lists, queues, payloads, events.

alter table tenants add column state integer not null default 0;
alter table tenants add column tier text not null default 'standard';
alter table tenants add column weight integer not null default 100;
alter table tenants add column stored_jobs integer;
alter table tenants add column running_runs integer;
alter table tenants add column submissions_per_second real;
alter table tenants add column fires_per_second real;
alter table tenants add column quotas text; -- the other limits by name, as JSON (store/rules/quotas.py); missing: no limit
alter table tenants add column encrypt_args integer not null default 0;

-- What must stay the same, and nobody else may know.
create table secrets (
    name text primary key,
    value blob not null
) strict, without rowid;

-- Keys that encrypt, wrapped by a key provider: `crypto/envelope.py`.
create table data_keys (
    name text primary key,
    wrapped_by text not null,
    wrapped blob not null,
    created_at integer not null
) strict, without rowid;

create table api_keys (
    id blob primary key,
    tenant_id integer, -- null: a root key
    role integer not null,
    name text not null,
    hash blob not null unique,
    hint text not null,
    queues text not null,
    networks text not null, -- none: from everywhere
    created_at integer not null,
    expires_at integer,
    revoked_at integer,
    last_used_at integer
) strict;
create index api_keys_of_tenant on api_keys (coalesce(tenant_id, 0), id);

-- Browsers. Of a token only the hash is here, so these rows are not enough to log in.
create table sessions (
    id blob primary key,
    key_id blob not null,
    hash blob not null unique,
    address text not null,
    agent text not null,
    created_at integer not null,
    last_seen_at integer not null,
    expires_at integer not null, -- moves on with use, up to ends_at
    ends_at integer not null
) strict;
create index sessions_of_key on sessions (key_id, created_at);
create index sessions_by_end on sessions (expires_at);
create table login_links (
    hash blob primary key,
    key_id blob not null,
    expires_at integer not null
) strict;
create index login_links_of_key on login_links (key_id, expires_at);
create index login_links_by_end on login_links (expires_at);

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
begin
    select raise(abort, 'the audit log is only added to');
end;

-- What jobs are found by beside their id: owner, name, tags, key. Written with the job, for what is given only.
create table labels (
    tenant_id integer not null,
    kind text not null, -- 'o' owner, 'n' name, 't' tag, 'k' key
    value text not null,
    job_id blob not null,
    primary key (tenant_id, kind, value, job_id)
) strict, without rowid;
create index labels_of_job on labels (job_id);

-- Jobs that are not to be seen any more, while their runs stay in history.
create table deleted_jobs (
    job_id blob primary key,
    tenant_id integer not null,
    deleted_at integer not null
) strict, without rowid;
create index deleted_jobs_by_age on deleted_jobs (deleted_at);

-- The ends that are looked for and that are rare. Succeeding writes to neither.
create index history_ends_of_jobs on history (tenant_id, end_state, job_id, run_id)
    where end_state is not null and end_state <> 4;
create index history_ends_of_runs on history (tenant_id, end_state, run_id)
    where end_state is not null and end_state <> 4;
create index dead_letters_of_job on dead_letters (job_id);

-- Queues that somebody has steered; the others exist by having lanes.
create table queues (
    tenant_id integer not null,
    name text not null,
    paused_at integer,
    primary key (tenant_id, name)
) strict, without rowid;

alter table workers add column tenant_id integer; -- null: works for all

-- Bytes that jobs refer to.
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

-- Refuse what would be more than a tenant may have (store/rules/quotas.py).
create trigger payloads_within_quota after insert on payloads
when (select count(*) from payloads where tenant_id = new.tenant_id)
    > (select quotas ->> '$.payloads' from tenants where id = new.tenant_id)
begin
    select raise(abort, 'duetime quota payloads');
end;
create trigger payloads_within_bytes after insert on payloads
when (select sum(size) from payloads where tenant_id = new.tenant_id)
    > (select quotas ->> '$.payload_bytes' from tenants where id = new.tenant_id)
begin
    select raise(abort, 'duetime quota payload_bytes');
end;
create trigger calendars_within_quota after insert on calendars
when (select count(*) from calendars where tenant_id = new.tenant_id)
    > (select quotas ->> '$.calendars' from tenants where id = new.tenant_id)
begin
    select raise(abort, 'duetime quota calendars');
end;
create trigger api_keys_within_quota after insert on api_keys
when (
    select count(*) from api_keys where coalesce(tenant_id, 0) = new.tenant_id
        and revoked_at is null and (expires_at is null or expires_at > new.created_at))
    > (select quotas ->> '$.api_keys' from tenants where id = new.tenant_id)
begin
    select raise(abort, 'duetime quota api_keys');
end;
create trigger workers_within_quota after insert on workers
when (
    select count(*) from workers where tenant_id = new.tenant_id and lease_until > new.started_at)
    > (select quotas ->> '$.workers' from tenants where id = new.tenant_id)
begin
    select raise(abort, 'duetime quota workers');
end;

-- What changed: a row per batch, tenant and kind, the ids one after the other. Written only while `listening` says that
-- somebody reads.
create table events (
    id integer primary key autoincrement,
    at integer not null,
    kind integer not null,
    tenant_id integer not null,
    ids blob not null
) strict;
create index events_by_age on events (at);
create table listening (
    one integer primary key check (one = 1),
    until integer not null
) strict;
insert into listening (one, until) values (1, 0);
