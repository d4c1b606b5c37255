-- sum_attempts: the results of attempts at targets within the window, or since probing began, and their breakers
select x.tenant_id, x.target, coalesce(b.state, BreakerState.CLOSED) as state,
    coalesce(b.since, duetime.clock()) as since, b.until,
    coalesce(b.trips, 0) as trips, coalesce(a.tried, 0) as tried, coalesce(a.failed, 0) as failed,
    coalesce(a.retried, 0) as retried, o.rate as flow
from unnest(:tenant_ids::int[], :targets::text[]) as x(tenant_id, target)
left join duetime.breakers b on b.tenant_id = x.tenant_id and b.target = x.target
left join duetime.limits o on o.tenant_id = x.tenant_id and o.kind = LimitKind.TARGET and o.name = x.target
cross join lateral (
    select sum(a.tried) as tried, sum(a.failed) as failed, sum(a.retried) as retried from duetime.attempts a
    where a.tenant_id = x.tenant_id and a.target = x.target
        and (a.at > duetime.clock() - :window::interval or b.state = BreakerState.PROBING)) a
order by x.tenant_id, x.target collate "C";

-- prune_breakers: remove breakers that have been closed for long; a target without a row has a closed one
delete from duetime.breakers where ctid = any(array(
    select b.ctid from duetime.breakers b where b.state = BreakerState.CLOSED and b.since < :before::timestamptz
    limit :batch for update skip locked));
