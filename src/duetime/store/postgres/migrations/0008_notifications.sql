-- What tenants want to be told, and how far they have been told.

create table duetime.subscriptions (
    tenant_id integer not null,
    name text not null,
    body bytea not null,
    primary key (tenant_id, name)
);

-- The place in the stream of events up to which everything was told; null while nobody wants to know. The node that is
-- at it says so, to spare the others the work: two at once tell nothing twice.
create table duetime.notifying (
    one boolean primary key default true check (one),
    number bigint,
    holder uuid,
    taken_at timestamptz not null default '-infinity',
    held_until timestamptz not null default '-infinity'
);
insert into duetime.notifying default values;

create table duetime.alerts (
    tenant_id integer not null,
    name text not null,
    rule bytea not null,
    open boolean not null default false,
    value double precision,
    wrong_since timestamptz,
    changed_at timestamptz,
    checked_at timestamptz not null default '-infinity',
    version integer not null default 0, -- raised whenever it opens or closes
    primary key (tenant_id, name)
);
create index alerts_by_check on duetime.alerts (checked_at);
create trigger within_quotas after insert on duetime.subscriptions referencing new table as added
    for each statement execute function duetime.keep_quotas('subscriptions');
create trigger within_quotas after insert on duetime.alerts referencing new table as added
    for each statement execute function duetime.keep_quotas('alerts');

do $$
declare
    name text;
begin
    foreach name in array array['subscriptions', 'alerts'] loop
        execute format('alter table duetime.%I enable row level security', name);
        execute format('create policy own on duetime.%I to duetime_tenant using'
            ' (tenant_id = any (array[duetime.current_tenant()]))', name);
        execute format('grant select, insert, update, delete on duetime.%I to duetime_tenant', name);
    end loop;
end $$;
