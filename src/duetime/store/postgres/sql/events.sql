-- tell: note for those who listen what happened to jobs or runs
insert into duetime.events (at, kind, tenant_id, ids)
select duetime.now(), $1, $2, $3::uuid[] from duetime.listening l where l.one and l.until > duetime.now();

-- keep_listening: have events written for a while
update duetime.listening set until = greatest(until, duetime.now() + $1::interval) where one;

-- last_mark: the place after which new events come; what was committed until now has one
select duetime.place_events(10000);

-- list_events: events after a place, in order
select place, at, kind, tenant_id, ids from duetime.read_events($1, $2);

-- prune_events: remove events that everybody has read or missed; those that subscriptions wait for stay for longer. Their
-- age counts from when they could be read. The oldest come first: those in front may have been placed while the clock was
-- ahead.
delete from duetime.events e using duetime.notifying n
where (e.xid, e.id) in (select xid, id from duetime.events where placed_at < $1::timestamptz order by placed_at limit $3)
    and (n.number is null or e.place <= n.number or e.placed_at < $2::timestamptz);
