-- find_firing: whether a tenant's jobs fire, how often at most per second, and how many may be stored
select state, fires_per_second, stored_jobs from duetime.tenants where id = :tenant_id;

-- tenants_firing: whether the jobs of these tenants fire, and how often at most per second
select id, state, fires_per_second from duetime.tenants where id = any(:ids::int[]);
