-- due_cursors: the cursors in view
select c.job_id, j.tenant_id, j.queue, j.tier, j.task, j.schedule, c.next_fire_at
from cursors c join jobs j on j.id = c.job_id
where c.scan_at <= :now order by c.scan_at limit :limit;

-- fire: make the runs of these jobs; move the cursors of recurring ones, and the rows of one-offs
insert into runs (id, job_id, tenant_id, lane_id, home_lane, due_at, ready_at, args, options, timeout_ms)
select :run_id, j.id, j.tenant_id, :lane_id, :lane_id, :due_at, max(:due_at, :now), j.args, j.options, j.timeout_ms
from jobs j where j.id = :job_id
on conflict (id) do nothing;
update cursors set next_fire_at = :next_fire_at, scan_at = :scan_at, last_fire_at = :due_at
where job_id = :job_id and :next_fire_at is not null;
delete from cursors where job_id = :job_id and :next_fire_at is null;
update jobs set state = 2, ended_at = :now where id = :job_id and :recurring and :next_fire_at is null;
delete from jobs where id = :job_id and not :recurring;

-- set_aside: pause jobs that cannot be processed, and say why
delete from cursors where job_id = :job_id;
update jobs set state = 1, problem = :problem where id = :job_id;

-- next_scan: when the next cursor comes into view
select min(scan_at) from cursors;
