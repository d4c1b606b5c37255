-- rules: what has to be known before claiming: weights of tenants (0), and limits that are set (their kinds)
select 0::smallint as kind, id as tenant_id, '' as name, weight from duetime.tenants where weight <> 100
union all
select 1, id, '', null from duetime.tenants where running_runs is not null
union all
select kind, tenant_id, name, null from duetime.limits
where kind in (2, 5) and (running is not null or rate is not null);

-- hold_limits: hold limits in the order in which everybody does, and make those that are missing
select * from duetime.hold_limits($1::int[], $2::smallint[], $3::text[], $4::int[], $5::int[], $6::interval[]);

-- count_limits: how limits stand that are held
select * from duetime.count_limits($1::bigint[]);

-- candidates: the first ready runs of limited lanes
select * from duetime.candidates($1::int[], $2::timestamptz[], $3);

-- fail_waiting: end runs that wait and can never start; they become dead letters too
with held as materialized (
    select id from duetime.runs where id = any($1::uuid[]) and worker_id is null order by id for update skip locked
),
done as (
    delete from duetime.runs r
    using held join unnest($1::uuid[], $2::text[], $3::text[]) as x(id, error, fingerprint) on x.id = held.id
    where r.id = any(array[held.id]) returning r.*, x.error, x.fingerprint
),
kept as (
    insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
        failure, due_at, ready_at, finished_at, timeout_ms, args, options, error)
    select id, job_id, tenant_id, home_lane, fence, attempt, lost, 2, 5, 1, due_at, ready_at, duetime.now(), timeout_ms,
        args, options, error
    from done
),
told as (
    insert into duetime.events (at, kind, tenant_id, ids)
    select duetime.now(), 5, tenant_id, array_agg(id) from done
    where (select l.until > duetime.now() from duetime.listening l where l.one) group by tenant_id
)
insert into duetime.dead_letters (run_id, job_id, tenant_id, lane_id, attempt, lost, failure, error, due_at, died_at,
    timeout_ms, args, options, fingerprint)
select id, job_id, tenant_id, home_lane, attempt, lost, 1, error, due_at, duetime.now(), timeout_ms, args, options,
    fingerprint
from done;

-- claim_limited: lease ready runs while limits are held
select worker_id, id, job_id, lane_id, fence, attempt, lost, duetime.stamp(due_at), duetime.stamp(ready_at),
    duetime.stamp(started_at), args, options, timeout_ms, checkpoint
from duetime.claim_limited($1::int[], $2::int[], $3::timestamptz[], $4::uuid[], $5::uuid[], $6::bigint[],
    $7::int[]);

-- keep_holds: remember which runs run under which limits
insert into duetime.holds (limit_id, run_id, fence)
select * from unnest($1::bigint[], $2::uuid[], $3::int[])
on conflict (limit_id, run_id) do update set fence = excluded.fence;

-- hold_running: let what is running already count under a limit of a tenant or a queue
select duetime.hold_running($1);

-- keep_starts: remember how many have started, for as long as that counts
insert into duetime.starts as s (limit_id, until, count)
select x.limit_id, to_timestamp(ceil(extract(epoch from x.at + x.period) * 100 / extract(epoch from x.period))
    * extract(epoch from x.period) / 100), x.count
from unnest($1::bigint[], $2::timestamptz[], $3::interval[], $4::int[]) as x(limit_id, at, period, count)
on conflict (limit_id, until) do update set count = s.count + excluded.count;

-- park_runs: runs whose key is full leave their lanes
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

-- lay_lines: give those who wait for rates the moments that are free by now
select duetime.lay_lines($1::bigint[], $2::timestamptz[], $3::interval[], $4);

-- leave_lines: let those who wait for a rate be decided about anew
select duetime.leave_lines($1, $2);

-- free_holds: runs that wait again hold nothing any more; what they held goes to those that wait for it
select duetime.free_holds($1::uuid[]);

-- parked_limits: limits that runs have been waiting for, while nobody has asked for them for a while
with recursive waiting as (
    (select r.parked_by from duetime.runs r where r.parked_by is not null order by r.parked_by limit 1)
    union all
    select (select r.parked_by from duetime.runs r where r.parked_by > w.parked_by order by r.parked_by limit 1)
    from waiting w where w.parked_by is not null
)
select l.id from waiting w join duetime.limits l on l.id = w.parked_by
where l.used_at < duetime.clock() - interval '2 seconds' limit $1;

-- unpark: give their lanes back to runs, as many as there is room for
select duetime.unpark($1::bigint[]);

-- set_queue_limits: what a queue may do at most
insert into duetime.limits (tenant_id, kind, name, running, rate, period, used_at, set_at)
values ($1, 2, $2, $3, $4, $5, duetime.now(), case when $3::int is null then null else duetime.clock() end)
on conflict (tenant_id, kind, name) do update set running = excluded.running, rate = excluded.rate,
    period = excluded.period, set_at = excluded.set_at
returning id;

-- set_tenant_limit: a limit for what a tenant may do at most, which is said with the tenant
insert into duetime.limits (tenant_id, kind, name, used_at, set_at) values ($1, 1, '', duetime.now(), duetime.clock())
on conflict (tenant_id, kind, name) do update set used_at = excluded.used_at, set_at = excluded.set_at
returning id;

-- prune_limits: forget keys that nobody has used for an hour, and that nobody waits for or runs under
with unused as materialized (
    select o.id from duetime.limits o where o.kind in (3, 4) and o.used_at < duetime.now() - interval '1 hour'
        and not exists (select 1 from duetime.holds h where h.limit_id = o.id)
        and not exists (select 1 from duetime.starts s where s.limit_id = o.id and s.until > duetime.now())
        and (select 1 from duetime.runs r where r.parked_by = o.id limit 1) is null
        and (select 1 from duetime.runs r where r.put_off_by = o.id limit 1) is null
    limit $1 for update skip locked
),
starts as (delete from duetime.starts s using unused u where s.limit_id = u.id)
delete from duetime.limits l using unused u where l.id = u.id;
