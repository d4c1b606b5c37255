-- What tasks say of their jobs (model/defaults.py), so that it holds whoever submits. Beside the workers, because it holds
-- while none is up, too.
create table duetime.tasks (
    tenant_id integer, -- null: told by a worker for all
    name text not null,
    said bytea, -- null: nothing
    told_at timestamptz not null, -- the newest word holds
    seen_at timestamptz not null -- a live worker has it: what nobody has had for long is forgotten
);
create unique index tasks_by_name on duetime.tasks (coalesce(tenant_id, -1), name);
create trigger within_quotas after insert on duetime.tasks referencing new table as added
    for each statement execute function duetime.keep_quotas('tasks');
alter table duetime.tasks enable row level security;
create policy serving on duetime.tasks for select to duetime_tenant
    using (duetime.current_tenant() is not null and coalesce(tenant_id, duetime.current_tenant()) = duetime.current_tenant());
grant select on duetime.tasks to duetime_tenant;
