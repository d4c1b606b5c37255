-- put_source: create or replace a source; a node that reads it begins again
insert into duetime.sources (tenant_id, name, body, marks, errors, paused) values (:tenant_id, :name, :body, :marks, :errors, :paused)
on conflict (tenant_id, name) do update
set body = excluded.body, paused = excluded.paused, stopped = false, reason = null, version = sources.version + 1;

-- list_sources: the sources of a tenant, or of all tenants; or one of them
select tenant_id, body, version, paused, stopped, holder is not null and held_until > duetime.now() as held, marks,
    received, made, repeated, bad, errors, reason
from duetime.sources
where (:tenant_id::int is null or tenant_id = :tenant_id) and (:name::text is null or name = :name)
order by tenant_id, name;

-- delete_source: remove a source
delete from duetime.sources where tenant_id = :tenant_id and name = :name;

-- pause_source: pause or resume a source; resuming also continues after a bad message
update duetime.sources set paused = :paused, stopped = false, reason = null, version = version + 1
where tenant_id = :tenant_id and name = :name;

-- take_source: become the node that reads a source, unless another node is; returns how far it was read
update duetime.sources set holder = :holder, held_until = duetime.now() + :period::interval
where tenant_id = :tenant_id and name = :name and version = :version and not paused and not stopped
    and (holder is null or holder = :holder or held_until <= duetime.now())
    and (select t.state from duetime.tenants t where t.id = sources.tenant_id) = TenantState.ACTIVE
returning marks;

-- keep_source: add what the node that reads a source has done; nothing if it is not that node any more
update duetime.sources
set marks = :marks, received = received + :received, made = made + :made, repeated = repeated + :repeated,
    bad = bad + :bad, errors = coalesce(:errors::bytea, errors), reason = :reason, stopped = :stopped,
    held_until = duetime.now() + :period::interval
where tenant_id = :tenant_id and name = :name and version = :version and holder = :holder and not paused
    and (select t.state from duetime.tenants t where t.id = sources.tenant_id) = TenantState.ACTIVE;

-- release_source: let another node read a source at once
update duetime.sources set holder = null where tenant_id = :tenant_id and name = :name and holder = :holder;
