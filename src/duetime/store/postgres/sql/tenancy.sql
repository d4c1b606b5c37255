-- create_tenant: add a tenant
with made as (
    insert into duetime.tenants (name, tier, weight, encrypt_args, stored_jobs, running_runs, submissions_per_second,
        fires_per_second, quotas, created_at)
    values (:name, :tier, :weight, :encrypt_args, :stored_jobs, :running_runs, :submissions_per_second, :fires_per_second, :quotas, duetime.now())
    returning id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
        quotas, encrypt_args, defaults, created_at
),
rated as (insert into duetime.fire_rates (tenant_id) select id from made where fires_per_second is not null)
select * from made;

-- update_tenant: change what is given; limits as a whole
with changed as (
    update duetime.tenants
    set name = coalesce(:name, name), state = coalesce(:state::smallint, state), tier = coalesce(:tier, tier),
        weight = coalesce(:weight, weight), encrypt_args = coalesce(:encrypt_args, encrypt_args),
        stored_jobs = case when :limited then :stored_jobs else stored_jobs end,
        running_runs = case when :limited then :running_runs else running_runs end,
        submissions_per_second = case when :limited then :submissions_per_second else submissions_per_second end,
        fires_per_second = case when :limited then :fires_per_second else fires_per_second end,
        quotas = case when :limited then :quotas else quotas end
    where id = :tenant_id
    returning id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
        quotas, encrypt_args, defaults, created_at
),
rated as (
    insert into duetime.fire_rates (tenant_id) select id from changed where fires_per_second is not null
    on conflict do nothing
)
select * from changed;

-- set_first_limits: the limits of the tenant that a new database has
update duetime.tenants set quotas = $2 where id = $1;
