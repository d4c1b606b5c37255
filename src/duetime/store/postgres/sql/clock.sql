-- shift_back: what begins after now was written before the clock was put back: it begins now, and ends as much later
with m as materialized (select duetime.clock() as now),
leases as (
    update duetime.workers w set lease_until = m.now + (w.lease_until - w.heard_at), heard_at = m.now,
        held_since = least(w.held_since, m.now)
    from m where w.id in (
        select o.id from duetime.workers o where o.heard_at > (select m.now from m) order by o.id for update skip locked)
),
claims as (
    update duetime.claims c set deadline = m.now + (c.deadline - c.claimed_at), claimed_at = m.now
    from m where c.ctid = any(array(
        select o.ctid from duetime.claims o where o.claimed_at > (select m.now from m) for update skip locked))
),
handovers as (
    update duetime.handovers h set deadline = m.now + (h.deadline - h.handed_at), handed_at = m.now
    from m where h.run_id in (
        select o.run_id from duetime.handovers o where o.handed_at > (select m.now from m)
        order by o.run_id for update skip locked)
),
breakers as (
    update duetime.breakers b set until = m.now + (b.until - b.since), since = m.now
    from m where (b.tenant_id, b.target) in (
        select o.tenant_id, o.target from duetime.breakers o where o.since > (select m.now from m)
        order by o.tenant_id, o.target for update skip locked)
),
attempts as (
    delete from duetime.attempts a where a.ctid in (
        select o.ctid from duetime.attempts o where o.at > (select m.now from m) for update skip locked)
),
alerts as (
    update duetime.alerts a set checked_at = m.now from m where (a.tenant_id, a.name) in (
        select o.tenant_id, o.name from duetime.alerts o where o.checked_at > (select m.now from m)
        order by o.tenant_id, o.name for update skip locked)
),
checkins as (
    update duetime.checkins c set pinged_at = least(c.pinged_at, m.now), started_at = least(c.started_at, m.now),
        counts_from = least(c.counts_from, m.now), revision = c.revision + 1, judge_at = m.now
    from m where (c.tenant_id, c.name) in (
        select o.tenant_id, o.name from duetime.checkins o where greatest(o.pinged_at, o.counts_from) > (select m.now from m)
        order by o.tenant_id, o.name for update skip locked)
)
update duetime.notifying n set held_until = m.now + (n.held_until - n.taken_at), taken_at = m.now
from m where n.one and n.taken_at > m.now;

-- shift_cursors: cursors that were brought into view at once while the clock was ahead come into view now. No node has seen
-- the clock show more than a minute past `seen_at`
update duetime.cursors c set scan_at = duetime.clock()
where c.job_id = any(array(
    select o.job_id from duetime.cursors o
    where o.scan_at > duetime.clock() and o.scan_at < '9999-01-01Z'
        and o.scan_at <= (select w.seen_at + interval '1 minute' from duetime.clock_watch w
            where w.one and w.seen_at > duetime.clock())
        and (o.scan_at > o.next_fire_at or o.owed is not null) and o.backlog_of is null
    order by o.job_id for update skip locked));

-- shift_limits: the same for limits. No start counts for longer than a period
with m as materialized (select duetime.clock() as now),
held as materialized (
    select l.id, l.period from duetime.limits l
    where l.used_at > (select m.now from m) or exists (
        select 1 from duetime.starts s where s.limit_id = l.id and s.until > (select m.now from m) + l.period * 1.02)
    order by l.tenant_id, l.kind, l.name for update skip locked
),
used as (
    update duetime.limits l set used_at = least(l.used_at, m.now) from m, held h where l.id = h.id
),
ahead as (
    delete from duetime.starts s using held h, m where s.limit_id = h.id and s.until > m.now + h.period * 1.02
    returning s.limit_id, s.count, m.now + h.period as until
)
insert into duetime.starts as s (limit_id, until, count)
select a.limit_id, a.until, sum(a.count) from ahead a group by a.limit_id, a.until
on conflict (limit_id, until) do update set count = s.count + excluded.count;

-- advance_lines: the first of those that wait for a rate starts when the rate lets it, where its moment is much later than
-- that; the next claim that looks at the limit lays the others behind it
with first as materialized (
    select f.id, f.ready_at, w.at, l.period / l.rate as step
    from duetime.limits l cross join lateral (
        select n.id, n.ready_at from duetime.runs n
        where n.put_off_by = l.id and n.lane_id > 0 and n.worker_id is null order by n.ready_at, n.id limit 1
    ) f cross join lateral (
        select greatest(duetime.clock(), min(s.until)) as at from duetime.starts s where s.limit_id = l.id
    ) w
    where l.rate > 0
)
update duetime.runs r set ready_at = f.at from first f
where r.id = any(array[f.id]) and f.ready_at > f.at + 2 * f.step and r.ready_at = f.ready_at and r.worker_id is null
    and r.lane_id > 0;
