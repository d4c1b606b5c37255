-- create_tenant: add a tenant
insert into tenants (name, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    quotas, encrypt_args, created_at)
values (:name, :tier, :weight, :stored_jobs, :running_runs, :submissions_per_second, :fires_per_second, :quotas,
    :encrypt_args, :now)
returning id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    quotas, encrypt_args, created_at;

-- find_tenant: a tenant by its name
select id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    quotas, encrypt_args, created_at
from tenants where name = :name;

-- find_tenant_by_id: a tenant by its number
select id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    quotas, encrypt_args, created_at
from tenants where id = :tenant_id;

-- list_tenants: the tenants above an id
select id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    quotas, encrypt_args, created_at
from tenants where id > :after order by id limit :limit;

-- update_tenant: change what is given; limits as a whole
update tenants
set name = coalesce(:name, name), state = coalesce(:state, state), tier = coalesce(:tier, tier),
    weight = coalesce(:weight, weight), encrypt_args = coalesce(:encrypt_args, encrypt_args),
    stored_jobs = case when :limited then :stored_jobs else stored_jobs end,
    running_runs = case when :limited then :running_runs else running_runs end,
    submissions_per_second = case when :limited then :submissions_per_second else submissions_per_second end,
    fires_per_second = case when :limited then :fires_per_second else fires_per_second end,
    quotas = case when :limited then :quotas else quotas end
where id = :tenant_id
returning id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    quotas, encrypt_args, created_at;

-- set_first_limits: the limits of the tenant that a new database has
update tenants set quotas = :quotas where id = :tenant_id;

-- jobs_to_count: where a part of a tenant's jobs ends
select id from jobs where tenant_id = :tenant_id and id > :after order by id limit 1 offset :batch;

-- count_jobs: how many jobs of a part are not over, and the bytes of their arguments
select count(*), coalesce(sum(length(args)), 0) from jobs
where tenant_id = :tenant_id and id > :after and id <= :until and state < 2;

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

-- count_graphs: how many graphs of a tenant are not over, up to a bound
select count(*) from (select 1 from graphs where tenant_id = :tenant_id and ended_at is null limit :most);

-- keep_secret: remember a secret unless there is one
insert into secrets (name, value) values (:name, :fresh) on conflict do nothing;

-- find_secret: a secret
select value from secrets where name = :name;

-- encrypting_tenants: whose content is encrypted
select id from tenants where encrypt_args;
