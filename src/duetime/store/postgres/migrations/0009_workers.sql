-- What people want to know of a worker: which duetime it is, when it was heard of last, what its attempts have logged.
alter table duetime.workers add column version text not null default '';
alter table duetime.workers add column heard_at timestamptz not null default pg_catalog.now();

-- Since when its lease has held without a break. One that is renewed after it was over was broken by a clock that stepped
-- or a machine that slept: what of a timeout had passed before that, the database's clock cannot tell.
alter table duetime.workers add column held_since timestamptz not null default pg_catalog.now();

-- What running attempts have logged so far. Beside the runs, because few say anything before they end, and their rows
-- are rewritten as a whole.
create table duetime.live_logs (
    run_id uuid primary key,
    tenant_id integer not null,
    fence integer not null,
    logs bytea not null,
    at timestamptz not null
);
create index live_logs_by_age on duetime.live_logs (at);
alter table duetime.live_logs enable row level security;
create policy own on duetime.live_logs to duetime_tenant using (tenant_id = any (array[duetime.current_tenant()]));
grant select, insert, update, delete on duetime.live_logs to duetime_tenant;
