-- find_tenant: a tenant by its name
select id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    quotas, encrypt_args, defaults, created_at
from duetime.tenants where name = :name;

-- find_tenant_by_id: a tenant by its number
select id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    quotas, encrypt_args, defaults, created_at
from duetime.tenants where id = :tenant_id;

-- list_tenants: the tenants above an id
select id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    quotas, encrypt_args, defaults, created_at
from duetime.tenants where id > :after order by id limit :limit;

-- put_defaults: the default options of a tenant's jobs
update duetime.tenants set defaults = :defaults where id = :tenant_id;

-- keep_secret: store a secret unless there is one
insert into duetime.secrets (name, value) values (:name, :fresh) on conflict do nothing;

-- find_secret: a secret
select value from duetime.secrets where name = :name;

-- encrypting_tenants: the tenants whose content is encrypted
select id from duetime.tenants where encrypt_args;

-- tenants_of_runs: the tenants of these runs
select id, tenant_id from duetime.runs where id = any(:ids::uuid[]);
