-- jobs_to_count: where a part of a tenant's jobs ends
select id from jobs where tenant_id = :tenant_id and id > :after order by id limit 1 offset :batch;

-- count_jobs: how many jobs of a part are not over, and the bytes of their arguments
select count(*), coalesce(sum(length(args)), 0) from jobs
where tenant_id = :tenant_id and id > :after and id <= :until and state < JobState.ENDED;

-- runs_to_count: where a part of a tenant's live runs ends
select job_id from runs where tenant_id = :tenant_id and job_id > :after order by job_id limit 1 offset :batch;

-- count_live_runs: how many live runs a part has, and the bytes of their arguments
select count(*), coalesce(sum(length(args)), 0) from runs
where tenant_id = :tenant_id and job_id > :after and job_id <= :until;

-- keys_to_count: where a part of a tenant's keys ends
select key from keys where tenant_id = :tenant_id and kind = :kind and key > :after order by key limit 1 offset :batch;

-- count_keys: how many keys a part has
select count(*), 0 from keys
where tenant_id = :tenant_id and kind = :kind and key > :after and (:until is null or key <= :until);
