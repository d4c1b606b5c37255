-- create_tenant: add a tenant
with made as (
    insert into duetime.tenants (name, tier, weight, encrypt_args, stored_jobs, running_runs, submissions_per_second,
        fires_per_second, quotas, created_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, duetime.now())
    returning id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
        quotas, encrypt_args, created_at
),
rated as (insert into duetime.fire_rates (tenant_id) select id from made where fires_per_second is not null)
select * from made;

-- find_tenant: a tenant by its name
select id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    quotas, encrypt_args, created_at
from duetime.tenants where name = $1;

-- find_tenant_by_id: a tenant by its number
select id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    quotas, encrypt_args, created_at
from duetime.tenants where id = $1;

-- list_tenants: the tenants above an id
select id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    quotas, encrypt_args, created_at
from duetime.tenants where id > $1 order by id limit $2;

-- update_tenant: change what is given; limits as a whole
with changed as (
    update duetime.tenants
    set name = coalesce($2, name), state = coalesce($3::smallint, state), tier = coalesce($4, tier),
        weight = coalesce($5, weight), encrypt_args = coalesce($6, encrypt_args),
        stored_jobs = case when $7 then $8 else stored_jobs end,
        running_runs = case when $7 then $9 else running_runs end,
        submissions_per_second = case when $7 then $10 else submissions_per_second end,
        fires_per_second = case when $7 then $11 else fires_per_second end,
        quotas = case when $7 then $12 else quotas end
    where id = $1
    returning id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
        quotas, encrypt_args, created_at
),
rated as (
    insert into duetime.fire_rates (tenant_id) select id from changed where fires_per_second is not null
    on conflict do nothing
)
select * from changed;

-- set_first_limits: the limits of the tenant that a new database has
update duetime.tenants set quotas = $2 where id = $1;

-- count_jobs: how many jobs of a tenant are not over, up to a bound
select (select count(*) from (select 1 from duetime.jobs where tenant_id = $1 and state < 2 limit $2) j)
    + (select count(*) from (select 1 from duetime.runs where tenant_id = $1 limit $2) r);

-- count_bytes: how many bytes the arguments of a tenant's jobs and live runs have
select least($2::bigint, coalesce((select sum(octet_length(args)) from duetime.jobs where tenant_id = $1 and state < 2), 0)::bigint
    + coalesce((select sum(octet_length(args)) from duetime.runs where tenant_id = $1), 0)::bigint);

-- count_keys: how many keys of a tenant are remembered, up to a bound
select count(*) from (select 1 from duetime.keys where tenant_id = $1 limit $2) k;

-- count_graphs: how many graphs of a tenant are not over, up to a bound
select count(*) from (select 1 from duetime.graphs where tenant_id = $1 and ended_at is null limit $2) g;

-- keep_secret: remember a secret unless there is one
insert into duetime.secrets (name, value) values ($1, $2) on conflict do nothing;

-- find_secret: a secret
select value from duetime.secrets where name = $1;

-- encrypting_tenants: whose content is encrypted
select id from duetime.tenants where encrypt_args;

-- tenants_of_runs: whose runs these are
select id, tenant_id from duetime.runs where id = any($1::uuid[]);
