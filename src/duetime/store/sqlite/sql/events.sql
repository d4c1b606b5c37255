-- is_heard: whether a listener exists
select 1 from listening where one = 1 and until > :now;

-- last_mark: the place after which new events come
select coalesce(max(seq), 0) as place from sqlite_sequence where name = 'events';

-- list_events: events after a place
select id as place, at, kind, tenant_id, ids from events where id > :after order by id limit :limit;

-- prune_events: remove events that everybody has read or missed; those that subscriptions wait for stay for
-- longer. The oldest by their time come first: those in front may have been written while the clock was ahead.
delete from events where id in (select id from events where at < :before order by at limit :batch)
    and (id <= coalesce((select number from notifying where one = 1), id) or at < :unread);
