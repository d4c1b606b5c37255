-- mark_deleted: hide a job from now on
insert into duetime.deleted_jobs (job_id, tenant_id, deleted_at) values (:job_id, :tenant_id, duetime.now())
on conflict do nothing;

-- forget_key: let go of the key of a job that is deleted
delete from duetime.keys where tenant_id = :tenant_id and kind = 'k' and key = :key and job_id = :job_id;

-- ready_now: let a run that waits for its next try start now
update duetime.runs set ready_at = duetime.clock()
where tenant_id is not distinct from :tenant_id and id = :run_id and worker_id is null and lane_id is not null
    and (attempt > 0 or lost > 0) and ready_at > duetime.clock();

-- ended_run: the end of a run, as history has it
select job_id, lane_id, end_state, args, options, timeout_ms from duetime.history
where tenant_id = :tenant_id and run_id = :run_id and end_state is not null;

-- what_job_says: what a run of a stored job is made of
select id as job_id, task, queue, tier, args, options, timeout_ms from duetime.jobs
where tenant_id = :tenant_id and id = :job_id;

-- lock_dead_letter: a dead letter, held against others who repeat it
select job_id, lane_id, args, options, timeout_ms from duetime.dead_letters
where tenant_id = :tenant_id and run_id = :run_id for update;

-- lock_dead_letters: dead letters that match, oldest first, held; those that others hold are passed over
select d.run_id, d.job_id, d.lane_id, d.args, d.options, d.timeout_ms
from duetime.dead_letters d join duetime.lanes n on n.id = d.lane_id
where d.tenant_id = :tenant_id and (:run_id::uuid is null or d.run_id = :run_id)
    and (:job_id::uuid is null or d.job_id = :job_id)
    and (:task::text is null or n.task = :task) and (:queue::text is null or n.queue = :queue)
    and (:failure::smallint is null or d.failure = :failure)
    and (:died_from::timestamptz is null or d.died_at >= :died_from)
    and (:died_until::timestamptz is null or d.died_at < :died_until)
    and (:error::text is null or strpos(d.error, :error) > 0)
    and (:fingerprint::text is null or d.fingerprint = :fingerprint)
    and (:also_deleted::boolean or not exists (select 1 from duetime.deleted_jobs x where x.job_id = d.job_id))
order by d.run_id limit :limit for update of d skip locked;

-- remove_dead_letters: dead letters that are none any more
delete from duetime.dead_letters where tenant_id = :tenant_id and run_id = any(:ids::uuid[]);
