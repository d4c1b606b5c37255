-- list_trends: the minutes or hours of a tenant since a moment
select at, body from duetime.trends where tenant_id = :tenant_id and step = :step and at >= :since order by at;

-- prune_trends: remove minutes or hours that are too old
delete from duetime.trends where (tenant_id, step, at) in (
    select tenant_id, step, at from duetime.trends where step = :step and at < :before::timestamptz order by at limit :batch
    for update skip locked);
