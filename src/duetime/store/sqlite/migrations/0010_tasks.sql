-- What tasks say of their jobs (model/defaults.py), so that it holds whoever submits. Beside the workers, because it holds
-- while none is up, too.
create table tasks (
    tenant_id integer, -- null: told by a worker for all
    name text not null,
    said blob, -- null: nothing
    told_at integer not null, -- the newest word holds
    seen_at integer not null -- a live worker has it: what nobody has had for long is forgotten
) strict;
create unique index tasks_by_name on tasks (coalesce(tenant_id, -1), name);
