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
