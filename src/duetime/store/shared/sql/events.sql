-- append_events: append an event about jobs or runs, if a listener exists
insert into duetime.events (at, kind, tenant_id, ids)
select duetime.now(), :kind, :tenant_id, :ids::uuid[] from duetime.listening l where l.one and l.until > duetime.now();

-- keep_listening: write events for a while
update duetime.listening set until = duetime.now() + :period::interval
where one and until < duetime.now() + :period::interval;
