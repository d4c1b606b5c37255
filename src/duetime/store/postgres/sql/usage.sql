-- count_jobs: how many jobs of a tenant are not over, up to a bound
select (select count(*) from (
        select 1 from duetime.jobs where tenant_id = :tenant_id and state < JobState.ENDED limit :most) j)
    + (select count(*) from (select 1 from duetime.runs where tenant_id = :tenant_id limit :most) r);

-- count_bytes: how many bytes the arguments of a tenant's jobs and live runs have
select least(:most::bigint, coalesce((
        select sum(octet_length(args)) from duetime.jobs where tenant_id = :tenant_id and state < JobState.ENDED), 0)::bigint
    + coalesce((select sum(octet_length(args)) from duetime.runs where tenant_id = :tenant_id), 0)::bigint);

-- count_keys: how many keys of a tenant are remembered, up to a bound
select count(*) from (select 1 from duetime.keys where tenant_id = :tenant_id limit :most) k;
