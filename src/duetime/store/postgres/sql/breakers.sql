-- add_attempts: count what attempts at targets came to
insert into duetime.attempts as a (tenant_id, target, at, tried, failed, retried)
select x.tenant_id, x.target, date_trunc('second', duetime.clock()), x.tried, x.failed, x.retried
from unnest($1::int[], $2::text[], $3::int[], $4::int[], $5::int[]) as x(tenant_id, target, tried, failed, retried)
order by x.tenant_id, x.target collate "C"
on conflict (tenant_id, target, at) do update
set tried = a.tried + excluded.tried, failed = a.failed + excluded.failed, retried = a.retried + excluded.retried;

-- sum_attempts: what attempts at targets came to within the window, or since they are probed, and how their breakers stand
select x.tenant_id, x.target, coalesce(b.state, 0) as state, coalesce(b.since, duetime.clock()) as since, b.until,
    coalesce(b.trips, 0) as trips, coalesce(a.tried, 0) as tried, coalesce(a.failed, 0) as failed,
    coalesce(a.retried, 0) as retried, o.rate as flow
from unnest($1::int[], $2::text[]) as x(tenant_id, target)
left join duetime.breakers b on b.tenant_id = x.tenant_id and b.target = x.target
left join duetime.limits o on o.tenant_id = x.tenant_id and o.kind = 5 and o.name = x.target
cross join lateral (
    select sum(a.tried) as tried, sum(a.failed) as failed, sum(a.retried) as retried from duetime.attempts a
    where a.tenant_id = x.tenant_id and a.target = x.target
        and (a.at > duetime.clock() - $3::interval or b.state = 2)) a
order by x.tenant_id, x.target collate "C";

-- hold_breaker: hold a breaker, made where it is missing
insert into duetime.breakers (tenant_id, target, since) values ($1, $2, duetime.clock())
on conflict (tenant_id, target) do update set target = excluded.target;

-- set_breaker: what becomes of a breaker
update duetime.breakers set state = $3, since = duetime.clock(), until = $4, trips = $5
where tenant_id = $1 and target = $2;

-- set_target_limit: what a breaker lets through
insert into duetime.limits (tenant_id, kind, name, running, rate, period, used_at)
values ($1, 5, $2, $3, $4, $5, duetime.clock())
on conflict (tenant_id, kind, name) do update
set running = excluded.running, rate = excluded.rate, period = excluded.period
returning id;

-- forget_attempts: count anew
delete from duetime.attempts where tenant_id = $1 and target = $2;

-- due_breaker: a breaker whose time is over, held against other nodes
select tenant_id, target from duetime.breakers where state in (1, 3) and until <= duetime.clock()
order by tenant_id, target limit 1 for update skip locked;

-- prune_attempts: forget what no breaker looks back at
delete from duetime.attempts a where a.at < duetime.clock() - $1::interval and not exists (
    select 1 from duetime.breakers b where b.tenant_id = a.tenant_id and b.target = a.target and b.state = 2);

-- prune_breakers: forget breakers that have been closed for long; a target without a row has a closed one
delete from duetime.breakers where ctid = any(array(
    select b.ctid from duetime.breakers b where b.state = 0 and b.since < $2::timestamptz limit $1 for update skip locked));

-- is_breaker_known: whether a target has had anything but a closed breaker
select exists (select 1 from duetime.breakers where tenant_id = $1 and target = $2);

-- waiting_at: how many runs stand before a breaker and could start, up to a cap
select (select count(*) from (
        select 1 from duetime.lanes l cross join lateral (
            select 1 from duetime.runs r
            where r.lane_id = l.id and r.worker_id is null and r.ready_at <= duetime.now() limit $3) r
        where l.tenant_id = $1 and l.task = $2 and l.awake limit $3) w)
    + (select count(*) from (
        select 1 from duetime.limits o cross join lateral (
            select 1 from duetime.runs r where r.parked_by = o.id limit $3) r
        where o.tenant_id = $1 and o.kind = 5 and o.name = $2 limit $3) p)
    + (select count(*) from (
        select 1 from duetime.limits o cross join lateral (
            select 1 from duetime.runs r
            where r.put_off_by = o.id and r.ready_at > duetime.now() and r.worker_id is null limit $3) r
        where o.tenant_id = $1 and o.kind = 5 and o.name = $2 limit $3) l);

-- list_breakers: the targets of a tenant that are not closed, or that were tried within the window
select target from duetime.breakers where tenant_id = $1 and state <> 0
union
select target from duetime.attempts where tenant_id = $1 and at > duetime.clock() - $2::interval
order by 1 limit 1000;
