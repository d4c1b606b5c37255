-- What tenants want to be told, and how far they have been told.

create table subscriptions (
    tenant_id integer not null,
    name text not null,
    body blob not null,
    primary key (tenant_id, name)
) strict, without rowid;

-- The place in the stream of events up to which everything was told; null while nobody wants to know.
create table notifying (
    one integer primary key check (one = 1),
    number integer,
    holder blob,
    taken_at integer not null default 0,
    held_until integer not null default 0
) strict;
insert into notifying (one) values (1);

create table alerts (
    tenant_id integer not null,
    name text not null,
    rule blob not null,
    open integer not null default 0,
    value real,
    wrong_since integer,
    changed_at integer,
    checked_at integer not null default 0,
    version integer not null default 0, -- raised whenever it opens or closes
    primary key (tenant_id, name)
) strict, without rowid;
create trigger subscriptions_within_quota after insert on subscriptions
when (select count(*) from subscriptions where tenant_id = new.tenant_id)
    > (select quotas ->> '$.subscriptions' from tenants where id = new.tenant_id)
begin
    select raise(abort, 'duetime quota subscriptions');
end;
create trigger alerts_within_quota after insert on alerts
when (select count(*) from alerts where tenant_id = new.tenant_id)
    > (select quotas ->> '$.alerts' from tenants where id = new.tenant_id)
begin
    select raise(abort, 'duetime quota alerts');
end;
