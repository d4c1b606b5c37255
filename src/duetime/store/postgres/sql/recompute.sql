-- stale_users: jobs whose cursor was computed with an earlier version of a calendar, after an id
select distinct u.job_id from duetime.calendar_users u
join duetime.calendars c on c.tenant_id = u.tenant_id and c.name = u.name and c.version <> u.version
where u.job_id > $2 order by u.job_id limit $1;

-- recurring_after: recurring jobs that have a future, in order of id
select id from duetime.jobs where id > $1 and recurring and state < 2 order by id limit $2;

-- hold_cursors: hold cursors against firing
select job_id from duetime.cursors where job_id = any($1::uuid[]) order by job_id for update;

-- hold_schedules: jobs with their cursors, held against editing
select j.id, j.tenant_id, j.schedule, j.options, j.state, j.recurring, c.next_fire_at, c.last_fire_at,
    c.owed
from duetime.jobs j left join duetime.cursors c on c.job_id = any(array[j.id])
where j.id = any($1::uuid[]) order by j.id for update of j;

-- hold_calendars_of: the calendars that jobs use, held against change
select tenant_id, name, dates, version from duetime.calendars
where (tenant_id, name) in (select tenant_id, name from duetime.calendar_users where job_id = any($1::uuid[]))
order by tenant_id, name for share;

-- refresh_users: remember that jobs go by their calendars as they are now
update duetime.calendar_users u set version = c.version from duetime.calendars c
where u.job_id = any($1::uuid[]) and c.tenant_id = u.tenant_id and c.name = u.name;

-- put_schedules: store schedules as they hold their calendars now
update duetime.jobs j set schedule = s.schedule from unnest($1::uuid[], $2::bytea[]) as s(id, schedule) where j.id = any(array[s.id]);

-- recompute_cursors: put cursors where the rules of today want them
update duetime.cursors c
set next_fire_at = n.next_fire_at, scan_at = greatest(n.scan_at, duetime.clock()), last_fire_at = n.last_fire_at,
    made = greatest(0, c.made - n.withdrawn), backlog_of = null
from unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[], $5::int[])
    as n(job_id, next_fire_at, scan_at, last_fire_at, withdrawn)
where c.job_id = any(array[n.job_id]);
