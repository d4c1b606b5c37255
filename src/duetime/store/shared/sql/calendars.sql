-- put_calendar: set the dates of a calendar; its version increases if they change
insert into duetime.calendars (tenant_id, name, dates) values (:tenant_id, :name, :dates::date[])
on conflict (tenant_id, name) do update set dates = excluded.dates,
    version = calendars.version + case when calendars.dates <> excluded.dates then 1 else 0 end;

-- find_calendars: a tenant's calendars, or one of them, and how many live jobs use each
select c.name, c.dates, c.version, (
    select count(*) from duetime.calendar_users u
    join duetime.jobs j on j.id = any(array[u.job_id]) and j.state < JobState.ENDED
    where u.tenant_id = c.tenant_id and u.name = c.name) as jobs
from duetime.calendars c where c.tenant_id = :tenant_id and (:name::text is null or c.name = :name) order by c.name;

-- forget_users: remove the list of jobs that use a calendar
delete from duetime.calendar_users where tenant_id = :tenant_id and name = :name;

-- delete_calendar: remove a calendar
delete from duetime.calendars where tenant_id = :tenant_id and name = :name;

-- hold_calendars: these calendars, locked against change and removal
select name, dates, version, 0 as jobs from duetime.calendars
where tenant_id = :tenant_id and name = any(:names::text[]) order by name for share;

-- forget_calendars_of: remove the list of calendars that a job uses
delete from duetime.calendar_users where job_id = :job_id;

-- use_calendar: store that a job uses a calendar, and in which version
insert into duetime.calendar_users (tenant_id, name, job_id, version) values (:tenant_id, :name, :job_id, :version);
