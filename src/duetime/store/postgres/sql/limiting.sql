-- hold_limits: lock limits that no other transaction has locked, and create missing ones
select * from duetime.hold_limits($1::int[], $2::smallint[], $3::text[], $4::int[], $5::int[], $6::interval[]);

-- count_limits: the counts of locked limits
select * from duetime.count_limits($1::bigint[]);

-- candidates: the first ready runs of limited lanes
select * from duetime.candidates($1::int[], $2::timestamptz[], $3);

-- announced_runs: those of these runs that are ready, with the lanes that they stay in until the end of the transaction
select lane_id, id, put_off_by is not null, options from duetime.runs
where id = any($1::uuid[]) and worker_id is null and ready_at <= duetime.now() order by id for update skip locked;

-- leave_runs: runs whose limits this node cannot read wait for a node that can; the longer they are due, the less often they
-- are looked at
with held as materialized (
    select id from duetime.runs where id = any($1::uuid[]) order by id for update skip locked
)
update duetime.runs r
set ready_at = duetime.clock() + least($3::interval, greatest($4::interval, (duetime.clock() - r.due_at) / 4)),
    message = x.message
from held join unnest($1::uuid[], $2::text[]) as x(id, message) on x.id = held.id
where r.id = any(array[held.id]) and r.worker_id is null and r.lane_id > 0;

-- keep_holds: store which runs hold which limits
insert into duetime.holds as h (limit_id, run_id, fence, since)
select x.limit_id, x.run_id, x.fence,
    greatest(duetime.clock(), (select l.counted_from from duetime.limits l where l.id = x.limit_id))
from unnest($1::bigint[], $2::uuid[], $3::int[]) as x(limit_id, run_id, fence)
on conflict (limit_id, run_id) do update set fence = excluded.fence, since = excluded.since
where h.fence <> excluded.fence;

-- hold_running: count running runs under a new limit of a tenant or a queue
select duetime.hold_running(:limit_id);

-- keep_starts: store how many runs have started under a rate
insert into duetime.starts as s (limit_id, until, count)
select x.limit_id, to_timestamp(ceil(extract(epoch from x.at + x.period) * 100 / extract(epoch from x.period))
    * extract(epoch from x.period) / 100), x.count
from unnest($1::bigint[], $2::timestamptz[], $3::interval[], $4::int[]) as x(limit_id, at, period, count)
on conflict (limit_id, until) do update set count = s.count + excluded.count;

-- park_runs: park runs whose key has no free slot
with held as materialized (
    select id from duetime.runs where id = any($1::uuid[]) order by id for update skip locked
)
update duetime.runs r set lane_id = -r.lane_id, parked_by = x.limit_id
from held join unnest($1::uuid[], $2::bigint[]) as x(id, limit_id) on x.id = held.id
where r.id = any(array[held.id]) and r.worker_id is null and r.lane_id > 0;

-- put_off_runs: runs whose rate is used up wait for their moment
with held as materialized (
    select id from duetime.runs where id = any($1::uuid[]) order by id for update skip locked
)
update duetime.runs r set ready_at = x.at, put_off_by = x.limit_id
from held join unnest($1::uuid[], $2::bigint[], $3::timestamptz[]) as x(id, limit_id, at) on x.id = held.id
where r.id = any(array[held.id]) and r.worker_id is null and r.lane_id > 0;

-- schedule_rate_queues: assign free moments of rates to the runs that wait for them
select duetime.schedule_rate_queues($1::bigint[], $2::timestamptz[], $3::interval[], $4);

-- release_rate_queue: make the runs that wait for a rate claimable again
select duetime.release_rate_queue(:id, :limit) as count;

-- free_holds: runs that are over or wait again hold nothing any more; the limits that other runs may be parked by
select duetime.free_holds($1::uuid[]);

-- parked_limits: limits that runs are parked by although there is room
select duetime.parked_limits($1);

-- unpark: give their lanes back to parked runs, as many as there is room for; how many, and the limits that are busy
select given, busy from duetime.unpark(:ids::bigint[]);

-- set_queue_limits: what a queue may do at most
insert into duetime.limits (tenant_id, kind, name, running, rate, period, used_at, set_at)
values (:tenant_id, LimitKind.QUEUE, :name, :running, :rate, :period, duetime.now(), case when :running::int is null then null else duetime.clock() end)
on conflict (tenant_id, kind, name) do update set running = excluded.running, rate = excluded.rate,
    period = excluded.period, set_at = excluded.set_at
returning id;

-- set_tenant_limit: a limit for what a tenant may do at most, which is said with the tenant
insert into duetime.limits (tenant_id, kind, name, used_at, set_at)
values (:tenant_id, LimitKind.TENANT, '', duetime.now(), duetime.clock())
on conflict (tenant_id, kind, name) do update set used_at = excluded.used_at, set_at = excluded.set_at
returning id;

-- prune_limits: forget keys that were not used for long, and that no run waits for or runs under; and limits that limit nothing
with unused as materialized (
    select o.id from duetime.limits o
    where (o.kind in (LimitKind.KEY, LimitKind.RATE_KEY)
            or o.kind in (LimitKind.QUEUE, LimitKind.TARGET) and o.running is null and o.rate is null)
        and o.used_at < :before::timestamptz
        and not exists (
            select 1 from duetime.holds h where h.limit_id = o.id and (
                select 1 from duetime.runs r where r.id = any(array[h.run_id]) and r.fence <= h.fence limit 1) is not null)
        and not exists (select 1 from duetime.starts s where s.limit_id = o.id and s.until > :before::timestamptz)
        and (select 1 from duetime.runs r where r.parked_by = o.id limit 1) is null
        and (select 1 from duetime.runs r where r.put_off_by = o.id limit 1) is null
    limit :batch for update skip locked
),
starts as (delete from duetime.starts s using unused u where s.limit_id = u.id),
holds as (delete from duetime.holds h using unused u where h.limit_id = u.id)
delete from duetime.limits l using unused u where l.id = u.id;
