-- Tenants' calendars, who uses them, and what is known of the time zone database that cursors were computed with.

create table calendars (
    tenant_id integer not null,
    name text not null,
    dates text not null, -- a JSON list
    version integer not null default 1, -- raised whenever its dates change
    primary key (tenant_id, name)
) strict, without rowid;

-- A job leaves out the days of a calendar; `version` is that of the calendar when the job's cursor was computed.
create table calendar_users (
    tenant_id integer not null,
    name text not null,
    job_id blob not null,
    version integer not null,
    primary key (tenant_id, name, job_id)
) strict, without rowid;
create index calendar_users_by_job on calendar_users (job_id);

create table meta (
    name text primary key,
    value text not null
) strict, without rowid;

-- The counts of a job that has no cursor any more.
alter table jobs add column made integer not null default 0;
alter table jobs add column missed integer not null default 0;
