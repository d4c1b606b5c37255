-- mark_deleted: hide a job from now on
insert into deleted_jobs (job_id, tenant_id, deleted_at) values (:job_id, :tenant_id, :now) on conflict do nothing;

-- forget_key: let go of the key of a job that is deleted
delete from keys where tenant_id = :tenant_id and kind = 'k' and key = :key and job_id = :job_id;

-- ready_now: let a run that waits for its next try start now
update runs set ready_at = :now
where tenant_id = :tenant_id and id = :run_id and worker_id is null and lane_id is not null
    and (attempt > 0 or lost > 0) and ready_at > :now;

-- ended_run: the end of a run, as history has it
select job_id, lane_id, end_state, args, options, timeout_ms from history
where tenant_id = :tenant_id and run_id = :run_id and end_state is not null;

-- what_job_says: what a run of a stored job is made of
select id as job_id, task, queue, tier, args, options, timeout_ms from jobs where tenant_id = :tenant_id and id = :job_id;

-- lock_dead_letter: a dead letter
select job_id, lane_id, args, options, timeout_ms from dead_letters where tenant_id = :tenant_id and run_id = :run_id;

-- lock_dead_letters: dead letters that match, oldest first
select d.run_id, d.job_id, d.lane_id, d.args, d.options, d.timeout_ms
from dead_letters d join lanes n on n.id = d.lane_id
where d.tenant_id = :tenant_id and (:run_id is null or d.run_id = :run_id)
    and (:job_id is null or d.job_id = :job_id)
    and (:task is null or n.task = :task) and (:queue is null or n.queue = :queue)
    and (:failure is null or d.failure = :failure)
    and (:died_from is null or d.died_at >= :died_from) and (:died_until is null or d.died_at < :died_until)
    and (:error is null or instr(d.error, :error) > 0)
    and (:fingerprint is null or d.fingerprint = :fingerprint)
    and (:also_deleted or not exists (select 1 from deleted_jobs x where x.job_id = d.job_id))
order by d.run_id limit :limit;

-- remove_dead_letters: a dead letter that is none any more
delete from dead_letters where tenant_id = :tenant_id and run_id = :run_id;

-- repeat_runs: make a run in place of another that is over
insert into runs (id, job_id, tenant_id, lane_id, home_lane, due_at, ready_at, args, options, timeout_ms, manual, followed)
values (:id, :job_id, :tenant_id, :lane_id, :lane_id, :due_at, :ready_at, :args, :options, :timeout_ms, 1,
    exists (select 1 from jobs j where j.id = :job_id and j.followed)
    or exists (select 1 from nodes n where n.job_id = :job_id))
on conflict (id) do nothing;
