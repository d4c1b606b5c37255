-- tell: note for those who listen what happened to jobs or runs
insert into duetime.events (at, kind, tenant_id, ids)
select duetime.now(), $1, $2, $3::uuid[] from duetime.listening l where l.one and l.until > duetime.now();

-- keep_listening: have events written for a while
update duetime.listening set until = greatest(until, duetime.now() + $1::interval) where one;

-- last_mark: the place after which new events come: behind everything that may have been written before this snapshot
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1;

-- list_events: events after a place, as far as nothing can appear before them any more
select xid::text::bigint, id, at, kind, tenant_id, ids from duetime.events
where (xid, id) > ($1::text::xid8, $2) and xid < pg_snapshot_xmin(pg_current_snapshot())
order by xid, id limit $3;

-- prune_events: remove events that everybody has read or missed; those that subscriptions wait for stay for a day. The
-- oldest by their time come first: those in front may have been written while the clock was ahead.
delete from duetime.events e using duetime.notifying n
where (e.xid, e.id) in (
        select xid, id from duetime.events where at < duetime.now() - $1::interval order by at limit $2)
    and (n.xid is null or (e.xid, e.id) <= (n.xid::text::xid8, n.number) or e.at < duetime.now() - interval '1 day');
