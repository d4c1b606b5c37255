-- Targets: runs that were handed over to their receiver, and what a tenant's requests are signed and filled with.

-- Runs that go on without their worker: it keeps its name on them, no claim of its holds them, and this is their deadline.
create table handovers (
    run_id blob primary key,
    tenant_id integer not null,
    fence integer not null,
    handed_at integer not null,
    deadline integer not null
) strict, without rowid;
create index handovers_by_deadline on handovers (deadline);

-- Sealed above the store.
create table tenant_secrets (
    tenant_id integer not null,
    name text not null,
    value blob not null,
    hosts text not null, -- JSON lists: where it may be sent, and the roles that may name it
    roles text not null,
    created_at integer not null,
    changed_at integer not null,
    primary key (tenant_id, name)
) strict, without rowid;
create table signing_secrets (
    tenant_id integer not null,
    id blob not null,
    value blob not null,
    created_at integer not null,
    expires_at integer,
    primary key (tenant_id, id)
) strict, without rowid;
create trigger tenant_secrets_within_quota after insert on tenant_secrets
when (select count(*) from tenant_secrets where tenant_id = new.tenant_id)
    > (select quotas ->> '$.secrets' from tenants where id = new.tenant_id)
begin
    select raise(abort, 'duetime quota secrets');
end;
create trigger signing_secrets_within_quota after insert on signing_secrets
when (
    select count(*) from signing_secrets where tenant_id = new.tenant_id
        and (expires_at is null or expires_at > new.created_at))
    > (select quotas ->> '$.signing_secrets' from tenants where id = new.tenant_id)
begin
    select raise(abort, 'duetime quota signing_secrets');
end;
