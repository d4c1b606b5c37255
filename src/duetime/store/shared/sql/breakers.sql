-- add_attempts: count the results of attempts at a target
insert into duetime.attempts (tenant_id, target, at, tried, failed, retried)
values (:tenant_id, :target, :second, :tried, :failed, :retried)
on conflict (tenant_id, target, at) do update set tried = attempts.tried + excluded.tried,
    failed = attempts.failed + excluded.failed, retried = attempts.retried + excluded.retried;

-- hold_breaker: lock a breaker; creates it if it is missing
insert into duetime.breakers (tenant_id, target, since) values (:tenant_id, :target, duetime.clock())
on conflict (tenant_id, target) do update set target = excluded.target;

-- set_breaker: store the new state of a breaker
update duetime.breakers set state = :state, since = duetime.clock(), until = :until, trips = :trips
where tenant_id = :tenant_id and target = :target;

-- set_target_limit: set the limit by which a breaker lets runs through
insert into duetime.limits (tenant_id, kind, name, running, rate, period, used_at)
values (:tenant_id, 5, :target, :running, :rate, :period, duetime.clock())
on conflict (tenant_id, kind, name) do update
set running = excluded.running, rate = excluded.rate, period = excluded.period
returning id;

-- forget_attempts: reset the counts
delete from duetime.attempts where tenant_id = :tenant_id and target = :target;

-- due_breaker: a breaker whose time is over, locked against other nodes
select tenant_id, target from duetime.breakers
where state in (BreakerState.OPEN, BreakerState.RECOVERING) and until <= duetime.clock()
order by tenant_id, target limit 1 for update skip locked;

-- prune_attempts: remove counts that are too old for any breaker
delete from duetime.attempts as a where a.at < duetime.clock() - :age::interval and not exists (
    select 1 from duetime.breakers b
    where b.tenant_id = a.tenant_id and b.target = a.target and b.state = BreakerState.PROBING);

-- is_breaker_known: whether a target has had anything but a closed breaker
select exists (select 1 from duetime.breakers where tenant_id = :tenant_id and target = :target) as known;

-- list_breakers: the targets of a tenant that are not closed, or that were tried within the window
select target from duetime.breakers where tenant_id = :tenant_id and state <> BreakerState.CLOSED
union
select target from duetime.attempts where tenant_id = :tenant_id and at > duetime.clock() - :window::interval
order by 1 limit 1000;

-- waiting_at: how many ready runs wait for a breaker, up to a cap
select (select count(*) from (
        select 1 from duetime.lanes l cross join lateral (
            select * from duetime.runs r
            where r.lane_id = l.id and r.worker_id is null and r.ready_at <= duetime.now() limit :cap) r
        where l.tenant_id = :tenant_id and l.task = :target and l.awake limit :cap) w)
    + (select count(*) from (
        select 1 from duetime.limits o cross join lateral (
            select * from duetime.runs r where r.parked_by = o.id limit :cap) r
        where o.tenant_id = :tenant_id and o.kind = LimitKind.TARGET and o.name = :target limit :cap) p)
    + (select count(*) from (
        select 1 from duetime.limits o cross join lateral (
            select * from duetime.runs r
            where r.put_off_by = o.id and r.ready_at > duetime.now() and r.worker_id is null limit :cap) r
        where o.tenant_id = :tenant_id and o.kind = LimitKind.TARGET and o.name = :target limit :cap) l) as count;
