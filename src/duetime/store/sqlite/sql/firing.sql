-- due_cursors: the cursors in view
select c.job_id, j.tenant_id, j.queue, j.tier, j.task, j.schedule, c.next_fire_at, j.options, c.made, c.exact,
    c.owed
from cursors c join jobs j on j.id = c.job_id
where c.scan_at <= :now order by c.scan_at limit :limit;

-- live_runs_of: the live runs of a job that is decided when it is due
select id, worker_id is not null from runs where tenant_id = :tenant_id and job_id = :job_id order by id;

-- make_runs: make a run of a stored job; one that is blocked has no lane yet
insert into runs (id, job_id, tenant_id, lane_id, home_lane, waits, manual, due_at, ready_at, args, options,
    timeout_ms, followed)
select :run_id, j.id, j.tenant_id, case when :blocked then null else :lane_id end, :lane_id, :blocked, :manual, :due_at,
    max(:ready_at, :now), j.args, j.options, j.timeout_ms, j.followed
from jobs j where j.id = :job_id
on conflict (id) do nothing;

-- skip_runs: keep an occurrence that made no run, and why
insert into history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state, due_at,
    finished_at, error)
select :run_id, j.id, j.tenant_id, :lane_id, 0, 0, 0, 6, 7, :due_at, :now, :reason
from jobs j where j.id = :job_id;

-- move_cursors: move the cursor of a recurring job on, and the row of a one-off out
update cursors set next_fire_at = :next_fire_at, scan_at = :scan_at, 
    last_fire_at = coalesce(:last_fire_at, last_fire_at), made = made + :made, missed = missed + :missed, owed = null
where job_id = :job_id and :next_fire_at is not null;
update jobs set state = 2, ended_at = :now, made = c.made + :made, missed = c.missed + :missed
from cursors c where c.job_id = :job_id and jobs.id = :job_id and :recurring and :next_fire_at is null;
delete from cursors where job_id = :job_id and :next_fire_at is null;
delete from jobs where id = :job_id and not :recurring;

-- set_aside: pause a job that cannot be processed where it stands, and say why
update jobs set state = 1, problem = :problem where id = :job_id;
update cursors set scan_at = 253370764800000000 where job_id = :job_id;

-- unblock: give their lanes to runs that waited for other runs of their job, now that those are over. Of several that
-- wait, only the first: it is what the next one waits for
update runs set lane_id = home_lane, waits = 0, ready_at = max(due_at, :now)
where id in (
    select b.id from runs b where b.lane_id is null and b.waits = 1 and not exists (
        select 1 from runs o where o.tenant_id = b.tenant_id and o.job_id = b.job_id
            and (o.lane_id is not null or o.id < b.id))
    limit :limit)
returning id;

-- next_scan: the first cursor above a moment
select min(scan_at) from cursors where scan_at >= :since;
