-- waiting_run: a live run, and what of its tenant and queue may hold it
select r.id, r.job_id, r.lane_id, r.worker_id, r.attempt, r.lost, r.due_at, r.ready_at, r.waits, r.parked_by, r.put_off_by,
    r.options, l.task, l.queue, l.tier, l.trial, t.state as tenant, t.running_runs, q.paused_at
from duetime.tenants t
cross join lateral (
    select * from duetime.runs r where r.tenant_id is not distinct from t.id and r.id = :run_id offset 0) r
join duetime.lanes l on l.id = coalesce(abs(r.lane_id), r.home_lane)
left join duetime.queues q on q.tenant_id = r.tenant_id and q.name = l.queue
where t.id = :tenant_id;

-- waiting_run_of_job: the waiting run of a job that starts next
select id from duetime.runs where tenant_id = :tenant_id and job_id = :job_id and worker_id is null
order by ready_at, due_at limit 1;

-- waiting_job: a stored job, and what of its tenant may hold its fires
select j.state, j.schedule, j.recurring, j.problem, c.next_fire_at, t.state as tenant, t.fires_per_second,
    c.backlog_of is not null as held
from duetime.jobs j join duetime.tenants t on t.id = j.tenant_id left join duetime.cursors c on c.job_id = j.id
where j.tenant_id = :tenant_id and j.id = :job_id
    and not exists (select 1 from duetime.deleted_jobs d where d.job_id = j.id);

-- waiting_parents: parents that have not ended, and how many there are
select e.parent_id, n.name, d.unended from duetime.edges e join duetime.dependents d on d.job_id = e.child_id
left join duetime.nodes n on n.job_id = e.parent_id
where e.child_id = :job_id and e.tenant_id = :tenant_id and e.state is null order by e.parent_id limit :limit;

-- runs_before: runs of a job that run, or wait before one of them
select id from duetime.runs where tenant_id = :tenant_id and job_id = :job_id and id <> :run_id
    and (worker_id is not null or lane_id is not null) order by uuid_send(id) limit :limit;

-- losses_of: how many workers a task, or a job of it, has lost in a row
select max(losses) as losses, max(lost_at) as at from duetime.suspects
where tenant_id = :tenant_id and task = :task and job_id in (:job_id, '00000000-0000-0000-0000-000000000000')
having count(*) > 0;

-- breaker_of: the breaker of a target
select state, until from duetime.breakers where tenant_id = :tenant_id and target = :target;

-- limit_by_name: a limit of a tenant
select id as limit_id, kind, name, running, rate, period from duetime.limits
where tenant_id = :tenant_id and kind = :kind and name = :name;

-- limit_by_id: the same by its number
select id as limit_id, kind, name, running, rate, period from duetime.limits
where tenant_id = :tenant_id and id = :limit_id;

-- limit_counts: how many runs hold a limit, how many starts count, and when the first of these does not count any more
select (
        select count(*) from (
            select 1 from duetime.holds h join duetime.runs r
                on r.id = any(array[h.run_id]) and r.fence = h.fence and r.worker_id is not null
            where h.limit_id = :limit_id limit :cap) w) as live,
    (select coalesce(sum(s.count), 0) from duetime.starts s where s.limit_id = :limit_id and s.until > duetime.now()) as runs,
    (select min(s.until) from duetime.starts s where s.limit_id = :limit_id and s.until > duetime.now()) as until;

-- limit_holders: some runs that hold a limit
select h.run_id from duetime.holds h join duetime.runs r
    on r.id = any(array[h.run_id]) and r.fence = h.fence and r.worker_id is not null
where h.limit_id = :limit_id limit :limit;
