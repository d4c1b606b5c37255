-- stale_users: jobs whose cursor was computed with an earlier version of a calendar, after an id
select distinct u.job_id from calendar_users u
join calendars c on c.tenant_id = u.tenant_id and c.name = u.name and c.version <> u.version
where u.job_id > :after order by u.job_id limit :limit;

-- recurring_after: recurring jobs that have a future, in order of id
select id from jobs where id > :after and recurring and state < 2 order by id limit :limit;

-- hold_schedules: a job with its cursor
select j.id, j.tenant_id, j.schedule, j.options, j.state, j.recurring, c.next_fire_at, c.last_fire_at,
    c.owed
from jobs j left join cursors c on c.job_id = j.id where j.id = :job_id;

-- hold_calendars_of: the calendars that a job uses
select c.name, c.dates, c.version from calendar_users u
join calendars c on c.tenant_id = u.tenant_id and c.name = u.name where u.job_id = :job_id;

-- refresh_users: remember that a job goes by its calendars as they are now
update calendar_users set version = (
    select c.version from calendars c where c.tenant_id = calendar_users.tenant_id and c.name = calendar_users.name)
where job_id = :job_id;

-- put_schedules: store a schedule as it holds its calendars now
update jobs set schedule = :schedule where id = :job_id;

-- recompute_cursors: put a cursor where the rules of today want it
update cursors set next_fire_at = :next_fire_at, scan_at = :scan_at, last_fire_at = :last_fire_at,
    made = max(0, made - :withdrawn), backlog_of = null
where job_id = :job_id;
