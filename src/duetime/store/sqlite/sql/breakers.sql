-- add_attempts: count what attempts at a target came to
insert into attempts (tenant_id, target, at, tried, failed, retried)
values (:tenant_id, :target, :now / 1000000 * 1000000, :tried, :failed, :retried)
on conflict (tenant_id, target, at) do update set tried = attempts.tried + excluded.tried,
    failed = attempts.failed + excluded.failed, retried = attempts.retried + excluded.retried;

-- sum_attempts: what attempts at a target came to within the window, or since it probes, and how its breaker stands
select coalesce(b.state, 0), coalesce(b.since, :now), b.until, coalesce(b.trips, 0), coalesce(sum(a.tried), 0),
    coalesce(sum(a.failed), 0), coalesce(sum(a.retried), 0), o.rate
from (select 1) left join breakers b on b.tenant_id = :tenant_id and b.target = :target
left join limits o on o.tenant_id = :tenant_id and o.kind = 5 and o.name = :target
left join attempts a on a.tenant_id = :tenant_id and a.target = :target and (a.at > :now - :window or b.state = 2);

-- hold_breaker: a breaker, made where it is missing
insert into breakers (tenant_id, target, since) values (:tenant_id, :target, :now)
on conflict (tenant_id, target) do nothing;

-- set_breaker: what becomes of a breaker
update breakers set state = :state, since = :now, until = :until, trips = :trips
where tenant_id = :tenant_id and target = :target;

-- set_target_limit: what a breaker lets through
insert into limits (tenant_id, kind, name, running, rate, period, used_at)
values (:tenant_id, 5, :target, :running, :rate, :period, :now)
on conflict (tenant_id, kind, name) do update
set running = excluded.running, rate = excluded.rate, period = excluded.period
returning id;

-- forget_attempts: count anew
delete from attempts where tenant_id = :tenant_id and target = :target;

-- due_breaker: a breaker whose time is over
select tenant_id, target from breakers where state in (1, 3) and until <= :now order by tenant_id, target limit 1;

-- prune_attempts: forget what no breaker looks back at
delete from attempts where at < :now - :age and not exists (
    select 1 from breakers b where b.tenant_id = attempts.tenant_id and b.target = attempts.target and b.state = 2);

-- prune_breakers: forget breakers that have been closed for long; a target without a row has a closed one
delete from breakers where (tenant_id, target) in (
    select tenant_id, target from breakers where state = 0 and since < :before limit :batch);

-- is_breaker_known: whether a target has had anything but a closed breaker
select exists (select 1 from breakers where tenant_id = :tenant_id and target = :target);

-- waiting_at: how many runs stand before a breaker and could start, up to a cap
select (select count(*) from (
        select 1 from lanes l join runs r on r.lane_id = l.id and r.worker_id is null and r.ready_at <= :now
        where l.tenant_id = :tenant_id and l.task = :target and l.awake limit :cap))
    + (select count(*) from (
        select 1 from limits o join runs r on r.parked_by = o.id
        where o.tenant_id = :tenant_id and o.kind = 5 and o.name = :target limit :cap))
    + (select count(*) from (
        select 1 from limits o join runs r on r.put_off_by = o.id and r.ready_at > :now and r.worker_id is null
        where o.tenant_id = :tenant_id and o.kind = 5 and o.name = :target limit :cap));

-- list_breakers: the targets of a tenant that are not closed, or that were tried within the window
select target from breakers where tenant_id = :tenant_id and state <> 0
union
select target from attempts where tenant_id = :tenant_id and at > :now - :window
order by 1 limit 1000;
