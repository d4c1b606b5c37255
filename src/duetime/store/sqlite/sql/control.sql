-- cancel_waiting: end runs that wait
insert into ended (run_id, job_id, tenant_id, end_state, finished_at)
select id, job_id, tenant_id, 6, :now from runs
where tenant_id = :tenant_id and id = :run_id and worker_id is null and followed;
insert into history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state, failure,
    due_at, ready_at, first_started_at, finished_at, timeout_ms, args, options, error)
select id, job_id, tenant_id, home_lane, fence, attempt, lost, 5, 6, 4, due_at, ready_at, first_started_at, :now,
    timeout_ms, args, options, :error
from runs where tenant_id = :tenant_id and id = :run_id and worker_id is null;
delete from runs where tenant_id = :tenant_id and id = :run_id and worker_id is null;

-- ask_to_stop: ask the worker of a running run to stop it
insert into cancels (worker_id, run_id, requested_at)
select worker_id, id, :now from runs where tenant_id = :tenant_id and id = :run_id and worker_id is not null
on conflict do nothing;
update runs set cancel_requested = 1 where tenant_id = :tenant_id and id = :run_id and worker_id is not null;

-- lock_job: a job in its first home
select j.id, j.tenant_id, j.task, j.queue, j.tier, j.recurring, j.state, j.created_at, c.next_fire_at
from jobs j left join cursors c on c.job_id = j.id where j.tenant_id = :tenant_id and j.id = :job_id;

-- cancel_once: end a one-off job that has not fired, as its cancelled run
insert into history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state, failure,
    due_at, finished_at, timeout_ms, args, options, error)
select :run_id, id, tenant_id, :lane_id, 0, 0, 0, 5, 6, 4, :due_at, :now, timeout_ms, args, options, :error
from jobs where tenant_id = :tenant_id and id = :job_id;
insert into ended (run_id, job_id, tenant_id, end_state, finished_at)
select :run_id, id, tenant_id, 6, :now from jobs where tenant_id = :tenant_id and id = :job_id and followed;
delete from cursors where job_id = :job_id;
delete from jobs where tenant_id = :tenant_id and id = :job_id;

-- cancel_recurring: end a recurring job
update jobs set made = c.made, missed = c.missed from cursors c where c.job_id = :job_id and jobs.id = :job_id;
delete from cursors where job_id = :job_id;
update jobs set state = 3, ended_at = :now where tenant_id = :tenant_id and id = :job_id;

-- lock_schedule: a job in its home with its cursor
select j.task, j.queue, j.tier, j.recurring, j.state, j.version, j.schedule, j.args, j.options, j.timeout_ms,
    j.problem, c.next_fire_at, c.last_fire_at, c.exact, c.owed
from jobs j left join cursors c on c.job_id = j.id where j.tenant_id = :tenant_id and j.id = :job_id
    and not exists (select 1 from deleted_jobs d where d.job_id = j.id);

-- hold_cursor: keep a cursor out of view, at the fire that is owed next
update cursors set scan_at = 253370764800000000, next_fire_at = :next_fire_at, last_fire_at = :last_fire_at,
    owed = :owed, made = max(0, made - :withdrawn), backlog_of = null
where job_id = :job_id;

-- put_cursor: bring a cursor back into view
insert into cursors (job_id, scan_at, next_fire_at, exact, made, missed)
select id, :scan_at, :next_fire_at, :exact, made, missed from jobs where id = :job_id
on conflict (job_id) do update set scan_at = excluded.scan_at, next_fire_at = excluded.next_fire_at,
    backlog_of = null;

-- set_job_state: pause a job, or make it active again
update jobs set state = :state, problem = null where tenant_id = :tenant_id and id = :job_id;

-- withdraw_run: take back one run that no worker has ever held; this is not an end state
delete from runs where tenant_id = :tenant_id and id = :run_id and fence = 0;
