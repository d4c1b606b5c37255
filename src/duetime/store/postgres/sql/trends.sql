-- keep_minutes: store minutes that no node has stored; returns which these are
insert into duetime.trends (tenant_id, step, at, body)
select tenant_id, 60, at, body from unnest(:tenant_id::int[], :at::timestamptz[], :body::bytea[]) as x(tenant_id, at, body)
on conflict do nothing returning tenant_id, at;

-- hold_hours: the hours to which minutes are added, locked against other nodes
select t.tenant_id, t.at, t.body from unnest(:tenant_id::int[], :at::timestamptz[]) as x(tenant_id, at)
join duetime.trends t on t.tenant_id = x.tenant_id and t.step = 3600 and t.at = x.at
order by t.tenant_id, t.at for update of t;

-- keep_hours: store the new sums of hours
insert into duetime.trends (tenant_id, step, at, body)
select tenant_id, 3600, at, body from unnest(:tenant_id::int[], :at::timestamptz[], :body::bytea[]) as x(tenant_id, at, body)
on conflict (tenant_id, step, at) do update set body = excluded.body;
