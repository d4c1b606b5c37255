-- shift_back: what begins after now was written before the clock was put back: it begins now, and ends as much later
update workers set lease_until = :now + lease_until - heard_at, heard_at = :now, held_since = min(held_since, :now)
where heard_at > :now;
update claims set deadline = :now + deadline - claimed_at, claimed_at = :now where claimed_at > :now;
update handovers set deadline = :now + deadline - handed_at, handed_at = :now where handed_at > :now;
update breakers set until = :now + until - since, since = :now where since > :now;
delete from attempts where at > :now;
update alerts set checked_at = :now where checked_at > :now;
update checkins set pinged_at = min(pinged_at, :now), started_at = min(started_at, :now),
    counts_from = min(counts_from, :now), revision = revision + 1, judge_at = :now
where pinged_at > :now or counts_from > :now;
update notifying set held_until = :now + held_until - taken_at, taken_at = :now where taken_at > :now;

-- shift_cursors: cursors that were brought into view at once while the clock was ahead come into view now. No node has seen
-- the clock show more than a minute past `seen_at`
update cursors set scan_at = :now
where scan_at > :now and scan_at < 253370764800000000
    and scan_at <= (select seen_at + 60000000 from clock_watch where one = 1 and seen_at > :now)
    and (scan_at > next_fire_at or owed is not null) and backlog_of is null;

-- shift_limits: the same for limits. No start counts for longer than a period
update limits set used_at = :now where used_at > :now;
insert into starts (limit_id, until, count)
select s.limit_id, :now + l.period, sum(s.count) from starts s join limits l on l.id = s.limit_id
where s.until > :now + l.period * 51 / 50 group by s.limit_id
on conflict (limit_id, until) do update set count = starts.count + excluded.count;
delete from starts where until > :now + (select l.period * 51 / 50 from limits l where l.id = starts.limit_id);

-- advance_lines: the first of those that wait for a rate starts when the rate lets it, where its moment is much later than
-- that; the next claim that looks at the limit lays the others behind it
update runs set ready_at = f.at from (
    select (
            select n.id from runs n where n.put_off_by = l.id and n.lane_id > 0 and n.worker_id is null
            order by n.ready_at, n.id limit 1) as id,
        max(:now, coalesce((select min(s.until) from starts s where s.limit_id = l.id), :now)) as at,
        l.period / l.rate as step
    from limits l where l.rate > 0) f
where runs.id = f.id and runs.ready_at > f.at + 2 * f.step;
