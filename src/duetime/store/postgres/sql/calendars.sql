-- put_calendar: set the dates of a calendar; its version is raised if they are others than before
insert into duetime.calendars (tenant_id, name, dates) values ($1, $2, $3::date[])
on conflict (tenant_id, name) do update
    set dates = excluded.dates, version = calendars.version + (calendars.dates <> excluded.dates)::int;

-- find_calendars: a tenant's calendars, or one of them, and how many live jobs use each
select c.name, c.dates, c.version, (
    select count(*) from duetime.calendar_users u join duetime.jobs j on j.id = any(array[u.job_id]) and j.state < 2
    where u.tenant_id = c.tenant_id and u.name = c.name) as jobs
from duetime.calendars c where c.tenant_id = $1 and ($2::text is null or c.name = $2) order by c.name;

-- lock_calendar: hold a calendar against whoever is about to use it
select 1 from duetime.calendars where tenant_id = $1 and name = $2 for update;

-- delete_calendar: remove a calendar, and what jobs that are over had to do with it
with users as (delete from duetime.calendar_users where tenant_id = $1 and name = $2)
delete from duetime.calendars where tenant_id = $1 and name = $2;

-- hold_calendars: these calendars, held against change and removal
select name, dates, version from duetime.calendars where tenant_id = $1 and name = any($2::text[]) order by name for share;

-- use_calendars: remember which calendars a job uses, and in which version
with gone as (delete from duetime.calendar_users where job_id = $2 and not name = any($3::text[]))
insert into duetime.calendar_users (tenant_id, name, job_id, version)
select $1, c.name, $2, c.version from unnest($3::text[], $4::int[]) as c(name, version)
on conflict (tenant_id, name, job_id) do update set version = excluded.version;

-- prune_users: forget what jobs that are gone used
delete from duetime.calendar_users where ctid = any(array(
    select u.ctid from duetime.calendar_users u
    where (select 1 from duetime.jobs j where j.id = u.job_id limit 1) is null limit $1));
