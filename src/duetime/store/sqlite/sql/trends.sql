-- keep_minutes: store a minute that was not stored; returns it
insert into trends (tenant_id, step, at, body) values (:tenant_id, 60, :at, :body)
on conflict do nothing returning tenant_id, at;

-- hold_hours: the hour to which minutes are added
select tenant_id, at, body from trends where tenant_id = :tenant_id and step = 3600 and at = :at;

-- keep_hours: store the new sum of an hour
insert into trends (tenant_id, step, at, body) values (:tenant_id, 3600, :at, :body)
on conflict (tenant_id, step, at) do update set body = excluded.body;
