-- hold_limits: a limit, made where it is missing
insert into limits (tenant_id, kind, name, running, rate, period, used_at)
values (:tenant_id, :kind, :name, :running, :rate, :period, :now)
on conflict (tenant_id, kind, name) do update set used_at = excluded.used_at,
    running = coalesce(excluded.running, limits.running), rate = coalesce(excluded.rate, limits.rate),
    period = coalesce(excluded.period, limits.period)
returning id;

-- count_limits: how a limit stands; what does not count any more is removed
delete from holds where limit_id = :id and not exists (
    select 1 from runs r where r.id = holds.run_id and r.fence = holds.fence and r.worker_id is not null);
delete from starts where limit_id = :id and until <= :now;
select case l.kind when LimitKind.TENANT then t.running_runs else l.running end,
    (select count(*) from holds h where h.limit_id = l.id),
    l.rate, l.period, (select coalesce(sum(s.count), 0) from starts s where s.limit_id = l.id),
    (select min(s.until) from starts s where s.limit_id = l.id),
    l.rate is not null and exists (
        select 1 from runs r where r.put_off_by = l.id and r.ready_at <= :now and r.lane_id > 0 and r.worker_id is null),
    case when l.rate is not null then (
        select min(r.ready_at) from runs r
        where r.put_off_by = l.id and r.ready_at > :now and r.lane_id > 0 and r.worker_id is null) end,
    case when l.rate is not null then (
        select max(r.ready_at) from runs r where r.put_off_by = l.id and r.lane_id > 0 and r.worker_id is null) end
from limits l join tenants t on t.id = l.tenant_id where l.id = :id;

-- candidates: the first ready runs of a lane whose runs have keys
select id, put_off_by is not null, options from runs where lane_id = :lane_id and worker_id is null and ready_at <= :now
order by ready_at, id limit :depth;

-- announced_runs: those of these runs that are ready in a lane
select r.id, r.put_off_by is not null, r.options
from json_each(:places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
where +r.lane_id = :lane_id and r.worker_id is null and r.ready_at <= :now
    and r.tenant_id = (select n.tenant_id from lanes n where n.id = :lane_id)
order by r.ready_at, r.id;

-- leave_runs: a run whose limits this node cannot read waits for one that can; the longer it is due, the less often it is
-- looked at
update runs set ready_at = :now + min(:at_most, max(:at_least, (:now - due_at) / 4)), message = :message
where id = :run_id and worker_id is null;

-- claim_limited: lease chosen runs to a worker that is alive
select r.id, r.job_id, r.lane_id, r.fence + 1, r.attempt + 1, r.lost, r.due_at, r.ready_at, :now, r.args, r.options,
    r.timeout_ms, r.checkpoint
from json_each(:places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
order by r.ready_at, r.id;
update runs
set worker_id = :worker_id, claim_no = :claim_no, fence = fence + 1, attempt = attempt + 1, started_at = :now,
    progress = null, message = null, put_off_by = null
where id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:places) x);

-- keep_holds: remember which run runs under which limit
insert into holds (limit_id, run_id, fence) values (?, ?, ?)
on conflict (limit_id, run_id) do update set fence = excluded.fence;

-- hold_running: count running runs under a new limit of a tenant or a queue
with held(ids) as (select run_ids from claims union all select run_id from handovers)
insert into holds (limit_id, run_id, fence)
select o.id, r.id, r.fence from limits o cross join held h
-- As many numbers as there are ids in the blob.
cross join json_each('[' || substr(replace(hex(zeroblob(length(h.ids) / 16)), '00', ',0'), 2) || ']') x
cross join runs r on r.id = substr(h.ids, x.key * 16 + 1, 16)
cross join lanes l on l.id = r.lane_id
where o.id = :limit_id and r.tenant_id = o.tenant_id and (o.kind = LimitKind.TENANT or l.queue = o.name) and r.worker_id is not null
on conflict (limit_id, run_id) do update set fence = excluded.fence;

-- keep_starts: store how many runs have started under a rate
insert into starts (limit_id, until, count) values (:id, :until, :count)
on conflict (limit_id, until) do update set count = starts.count + excluded.count;

-- park_runs: a run whose key is full leaves its lane
update runs set lane_id = -lane_id, parked_by = :limit_id where id = :run_id;

-- put_off_runs: a run whose rate is used up waits for its moment
update runs set ready_at = :at, put_off_by = :limit_id where id = :run_id;

-- schedule_rate_queues: assign free moments of a rate to the runs that wait for it
update runs set ready_at = x.at from (
    select id, max(:now, :at + (row_number() over (order by ready_at, id) - 1) * :interval) as at from (
        select id, ready_at from runs where put_off_by = :id and ready_at > :now and lane_id > 0 and worker_id is null
        order by ready_at, id limit :limit)) x
where runs.id = x.id;

-- release_rate_queue: make the runs that wait for a rate claimable again
update runs set ready_at = :now, put_off_by = null where id in (
    select id from runs where put_off_by = :id and ready_at > :now and lane_id > 0 and worker_id is null
    order by ready_at, id limit :limit);
select changes() as count;

-- has_holds: whether anything is held
select 1 from holds limit 1;

-- free_holds: runs that wait again, or are over, hold nothing any more
delete from holds where run_id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:places) x)
returning limit_id;

-- parked_limits: limits with parked runs that no call has unparked for a while
with recursive waiting (id) as (
    select min(parked_by) from runs where parked_by is not null
    union all
    select (select min(r.parked_by) from runs r where r.parked_by > w.id) from waiting w where w.id is not null
)
select l.id from waiting w cross join limits l on l.id = w.id where l.used_at < :now - 2000000 limit :limit;

-- unpark: give their lanes back to runs, as many as there is room for
update runs set lane_id = -lane_id, parked_by = null, ready_at = :now where id in (
    select id from runs where parked_by = :id order by due_at, id limit (
        select case when l.kind not in (LimitKind.KEY, LimitKind.TARGET) then 0
            when l.running is null then 100000 else max(0, l.running - (
            select count(*) from holds h join runs r on r.id = h.run_id and r.fence = h.fence and r.worker_id is not null
            where h.limit_id = l.id)) end
        from limits l where l.id = :id));

-- set_queue_limits: what a queue may do at most
insert into limits (tenant_id, kind, name, running, rate, period, used_at)
values (:tenant_id, LimitKind.QUEUE, :name, :running, :rate, :period, :now)
on conflict (tenant_id, kind, name) do update set running = excluded.running, rate = excluded.rate,
    period = excluded.period
returning id;

-- set_tenant_limit: a limit for what a tenant may do at most, which is said with the tenant
insert into limits (tenant_id, kind, name, used_at) values (:tenant_id, LimitKind.TENANT, '', :now)
on conflict (tenant_id, kind, name) do update set used_at = excluded.used_at
returning id;

-- prune_limits: forget keys that were not used for long, and that no run waits for or runs under; and limits that limit nothing
delete from limits where id in (
    select o.id from limits o
    where (o.kind in (LimitKind.KEY, LimitKind.RATE_KEY)
            or o.kind in (LimitKind.QUEUE, LimitKind.TARGET) and o.running is null and o.rate is null)
        and o.used_at < :before
        and not exists (select 1 from holds h where h.limit_id = o.id)
        and not exists (select 1 from starts s where s.limit_id = o.id and s.until > :before)
        and not exists (select 1 from runs r where r.parked_by = o.id)
        and not exists (select 1 from runs r where r.put_off_by = o.id)
    limit :batch);
