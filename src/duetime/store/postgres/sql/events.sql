-- last_mark: the place after which new events come; what was committed until now has one
select duetime.place_events(10000) as place;

-- list_events: events after a place, in order
select place, at, kind, tenant_id, ids from duetime.read_events(:after, :limit);

-- prune_events: remove events that everybody has read or missed; those that subscriptions wait for stay for longer. Their
-- age counts from when they could be read. The oldest come first: those in front may have been placed while the clock was
-- ahead.
delete from duetime.events e using duetime.notifying n
where (e.xid, e.id) in (select xid, id from duetime.events where placed_at < :before::timestamptz order by placed_at limit :batch)
    and (n.number is null or e.place <= n.number or e.placed_at < :unread::timestamptz);
