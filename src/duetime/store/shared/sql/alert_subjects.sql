-- job_of_rule: a job that a rule watches
select j.task, j.queue, j.state, j.problem, j.options, c.next_fire_at
from duetime.jobs j left join duetime.cursors c on c.job_id = j.id
where j.id = :job_id and j.tenant_id = :tenant_id;

-- states_of_tag: the states of the newest jobs with a tag, among those that have a future
select j.state from (
    select l.job_id from duetime.labels l where l.tenant_id = :tenant_id and l.kind = 't' and l.value = :tag
    order by l.job_id desc limit :limit) l
cross join lateral (select * from duetime.jobs j where j.id = l.job_id offset 0) j;

-- paused_queues: the queues of a tenant that are paused
select name from duetime.queues where tenant_id = :tenant_id and paused_at is not null;

-- waiting_of_job: the run of a job that has waited longest for its first start, though it could start
select r.id as run_id, r.job_id, r.due_at, r.ready_at, r.attempt, r.lost, r.options, l.task, l.queue
from duetime.runs r join duetime.lanes l on l.id = r.home_lane
where r.tenant_id = :tenant_id and r.job_id = :job_id and r.worker_id is null and r.lane_id > 0 and r.attempt = 0
    and r.lost = 0 and r.ready_at <= duetime.now()
order by r.ready_at limit 1;

-- waiting_in_lane: the runs that have waited longest in a lane
select r.id as run_id, r.job_id, r.due_at, r.ready_at, r.attempt, r.lost, r.options, l.task, l.queue
from duetime.runs r join duetime.lanes l on l.id = r.home_lane
where r.lane_id = :lane_id and r.worker_id is null and r.ready_at <= :until::timestamptz
order by r.ready_at, r.id limit :limit;

-- unstarted: when those of some runs were due that wait for their first start
select r.due_at from duetime.runs r
where r.id = any(:ids::uuid[]) and r.worker_id is null and r.first_started_at is null;

-- unfired_jobs: jobs of a tenant whose occurrence should have been fired, among those that are overdue for longest
select c.job_id, c.next_fire_at, j.task, j.queue, j.options from (
    select job_id, scan_at, next_fire_at from duetime.cursors
    where backlog_of is null and scan_at <= :until::timestamptz order by scan_at limit :limit) c
cross join lateral (select * from duetime.jobs j where j.id = c.job_id offset 0) j
where j.tenant_id = :tenant_id and j.state = JobState.ACTIVE and c.next_fire_at <= :until
order by c.next_fire_at;

-- unfired_in_backlog: the same, of those that the tenant's rate of fires holds back
select c.job_id, c.next_fire_at, j.task, j.queue, j.options from (
    select job_id, scan_at, next_fire_at from duetime.cursors
    where backlog_of = :tenant_id and scan_at <= :until::timestamptz order by scan_at limit :limit) c
cross join lateral (select * from duetime.jobs j where j.id = c.job_id offset 0) j
where j.state = JobState.ACTIVE and c.next_fire_at <= :until
order by c.next_fire_at;

-- running_of_job: the runs of a job that have been running for longest
select r.id as run_id, r.job_id, r.started_at, r.options, l.task, l.queue
from duetime.runs r join duetime.lanes l on l.id = r.home_lane
where r.tenant_id = :tenant_id and r.job_id = :job_id and r.worker_id is not null
order by r.started_at limit :limit;

-- newest_ends: how long the newest runs of a job took that have ended
select h.run_id, h.end_state, h.started_at, h.finished_at
from duetime.history h where h.tenant_id = :tenant_id and h.job_id = :job_id and h.end_state is not null
order by h.run_id desc limit :limit;
