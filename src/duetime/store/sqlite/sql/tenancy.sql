-- create_tenant: add a tenant
insert into tenants (name, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    encrypt_args, created_at)
values (:name, :tier, :weight, :stored_jobs, :running_runs, :submissions_per_second, :fires_per_second, :encrypt_args,
    :now)
returning id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    encrypt_args, created_at;

-- find_tenant: a tenant by its name
select id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    encrypt_args, created_at
from tenants where name = :name;

-- find_tenant_by_id: a tenant by its number
select id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    encrypt_args, created_at
from tenants where id = :tenant_id;

-- list_tenants: the tenants above an id
select id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    encrypt_args, created_at
from tenants where id > :after order by id limit :limit;

-- update_tenant: change what is given; limits as a whole
update tenants
set name = coalesce(:name, name), state = coalesce(:state, state), tier = coalesce(:tier, tier),
    weight = coalesce(:weight, weight), encrypt_args = coalesce(:encrypt_args, encrypt_args),
    stored_jobs = case when :limited then :stored_jobs else stored_jobs end,
    running_runs = case when :limited then :running_runs else running_runs end,
    submissions_per_second = case when :limited then :submissions_per_second else submissions_per_second end,
    fires_per_second = case when :limited then :fires_per_second else fires_per_second end
where id = :tenant_id
returning id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    encrypt_args, created_at;

-- count_jobs: how many jobs of a tenant are not over, up to a bound
select (select count(*) from (select 1 from jobs where tenant_id = :tenant_id and state < 2 limit :most))
    + (select count(*) from (select 1 from runs where tenant_id = :tenant_id limit :most));

-- keep_secret: remember a secret unless there is one
insert into secrets (name, value) values (:name, :fresh) on conflict do nothing;

-- find_secret: a secret
select value from secrets where name = :name;
