-- put_calendar: set the dates of a calendar; its version is raised if they are others than before
insert into calendars (tenant_id, name, dates) values (:tenant_id, :name, :dates)
on conflict (tenant_id, name) do update
    set version = version + (dates <> excluded.dates), dates = excluded.dates;

-- find_calendars: a tenant's calendars, or one of them, and how many live jobs use each
select c.name, c.dates, c.version, (
    select count(*) from calendar_users u join jobs j on j.id = u.job_id and j.state < 2
    where u.tenant_id = c.tenant_id and u.name = c.name) as jobs
from calendars c where c.tenant_id = :tenant_id and (:name is null or c.name = :name) order by c.name;

-- delete_calendar: remove a calendar, and what jobs that are over had to do with it
delete from calendar_users where tenant_id = :tenant_id and name = :name;
delete from calendars where tenant_id = :tenant_id and name = :name;

-- hold_calendars: these calendars
select c.name, c.dates, c.version from json_each(:names) n join calendars c
    on c.tenant_id = :tenant_id and c.name = n.value order by c.name;

-- use_calendars: remember which calendars a job uses, and in which version
delete from calendar_users where job_id = :job_id;
insert into calendar_users (tenant_id, name, job_id, version)
select :tenant_id, n.value, :job_id, v.value from json_each(:names) n join json_each(:versions) v on v.key = n.key;

-- prune_users: forget what jobs that are gone used
delete from calendar_users where (tenant_id, name, job_id) in (
    select u.tenant_id, u.name, u.job_id from calendar_users u
    where not exists (select 1 from jobs j where j.id = u.job_id) limit :batch);
