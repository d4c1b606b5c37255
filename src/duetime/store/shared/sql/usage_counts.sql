-- usage_of_days: what a tenant has used by day and queue
select tenant_id, day, queue, runs, failed, attempts, run_us, bytes from duetime.usage
where tenant_id = :tenant_id and day >= :first and day <= :last order by day, queue;

-- usage_of_tenants: what tenants have used by day
select tenant_id, day, cast(sum(runs) as bigint) as runs, cast(sum(failed) as bigint) as failed,
    cast(sum(attempts) as bigint) as attempts, cast(sum(run_us) as bigint) as run_us, cast(sum(bytes) as bigint) as bytes
from duetime.usage
where day >= :first and day <= :last and (tenant_id > :tenant_id or tenant_id = :tenant_id and day > :after)
group by tenant_id, day order by tenant_id, day limit :limit;

-- prune_usage: forget what was used long ago
delete from duetime.usage where day < :before;
