-- Tenants' calendars, who uses them, and what is known of the time zone database that cursors were computed with.

create table duetime.calendars (
    tenant_id integer not null,
    name text not null,
    dates date[] not null,
    version integer not null default 1, -- raised whenever its dates change
    primary key (tenant_id, name)
);

-- A job leaves out the days of a calendar; `version` is that of the calendar when the job's cursor was computed.
create table duetime.calendar_users (
    tenant_id integer not null,
    name text not null,
    job_id uuid not null,
    version integer not null,
    primary key (tenant_id, name, job_id)
);
create index calendar_users_by_job on duetime.calendar_users (job_id);

create table duetime.meta (
    name text primary key,
    value text not null
);

-- The counts of a job that has no cursor any more.
alter table duetime.jobs
    add column made bigint not null default 0,
    add column missed bigint not null default 0;
