-- create_tenant: add a tenant
insert into tenants (name, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    quotas, encrypt_args, created_at)
values (:name, :tier, :weight, :stored_jobs, :running_runs, :submissions_per_second, :fires_per_second, :quotas,
    :encrypt_args, :now)
returning id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    quotas, encrypt_args, defaults, created_at;

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
    quotas, encrypt_args, defaults, created_at;

-- set_first_limits: the limits of the tenant that a new database has
update tenants set quotas = :quotas where id = :tenant_id;
