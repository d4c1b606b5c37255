-- sum_attempts: the results of attempts at targets within the window, or since probing began, and their breakers; without
-- the table `n`, each tenant would read all targets
with n as materialized (select key, value from json_each(:targets))
select t.value as tenant_id, n.value as target, coalesce(b.state, BreakerState.CLOSED) as state,
    coalesce(b.since, :now) as since, b.until,
    coalesce(b.trips, 0) as trips, coalesce(sum(a.tried), 0) as tried, coalesce(sum(a.failed), 0) as failed,
    coalesce(sum(a.retried), 0) as retried, o.rate as flow
from json_each(:tenant_ids) t cross join n on n.key = t.key
left join breakers b on b.tenant_id = t.value and b.target = n.value
left join limits o on o.tenant_id = t.value and o.kind = LimitKind.TARGET and o.name = n.value
left join attempts a on a.tenant_id = t.value and a.target = n.value
    and (a.at > :now - :window or b.state = BreakerState.PROBING)
group by t.key order by t.value, n.value;

-- prune_breakers: remove breakers that have been closed for long; a target without a row has a closed one
delete from breakers where (tenant_id, target) in (
    select tenant_id, target from breakers where state = BreakerState.CLOSED and since < :before limit :batch);
