-- stale_users: jobs whose cursor was computed with an earlier version of a calendar, after an id
select distinct u.job_id from duetime.calendar_users u
join duetime.calendars c on c.tenant_id = u.tenant_id and c.name = u.name and c.version <> u.version
where u.job_id > :after order by u.job_id limit :limit;

-- recurring_after: recurring jobs that have a future, in order of id
select id from duetime.jobs where id > :after and recurring and state < JobState.ENDED order by id limit :limit;

-- hold_schedules: jobs with their cursors, held against editing
select j.id, j.tenant_id, j.schedule, j.options, j.state, j.recurring, c.next_fire_at, c.last_fire_at, c.owed
from duetime.jobs j left join duetime.cursors c on c.job_id = any(array[j.id])
where j.id = any(:ids::uuid[]) order by j.id for update of j;

-- hold_calendars_of: the calendars that jobs use, held against change
select tenant_id, name, dates, version from duetime.calendars
where (tenant_id, name) in (select tenant_id, name from duetime.calendar_users where job_id = any(:ids::uuid[]))
order by tenant_id, name for share;

-- refresh_users: remember that jobs go by their calendars as they are now
update duetime.calendar_users as u set version = c.version from duetime.calendars c
where u.job_id = any(:ids::uuid[]) and c.tenant_id = u.tenant_id and c.name = u.name;

-- put_schedule: store a schedule as it holds its calendars now
update duetime.jobs set schedule = :schedule where id = :job_id;

-- recompute_cursor: put a cursor where the rules of today want it
update duetime.cursors
set next_fire_at = :next_fire_at, scan_at = greatest(:scan_at::timestamptz, duetime.clock()),
    last_fire_at = :last_fire_at, made = greatest(0, made - :withdrawn::int), backlog_of = null
where job_id = :job_id;
