-- Dependencies between jobs, graphs and chains of them; and fingerprints of dead letters.

-- Somebody waits for the end: of any run of this job, of this run.
alter table duetime.jobs add column followed boolean not null default false;
alter table duetime.runs add column followed boolean not null default false;

-- A run without a lane waits for something else than time; 2: for its parents. The scanner looks at those of kind 1.
drop index duetime.runs_blocked;
create index runs_blocked on duetime.runs (tenant_id, job_id) where lane_id is null and waits = 1;

-- Ends that somebody waits for and that have not been handed on. Written in the transaction of the end itself.
create table duetime.ended (
    run_id uuid primary key,
    job_id uuid not null,
    tenant_id integer not null,
    end_state smallint not null,
    started_at timestamptz,
    finished_at timestamptz not null
) with (autovacuum_vacuum_scale_factor = 0.02);
create index ended_by_job on duetime.ended (job_id);

-- However a run ends, it leaves `runs`: this sees every end, in whatever transaction, and costs those that nobody waits
-- for a look at one column. It is deferred because the row in history, which says how it ended, may be written last; a
-- run without one was taken back, which is not an end. Whoever ends a run (a tenant, a guest) need not know of it.
create function duetime.note_end() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
as $$
begin
    insert into duetime.ended (run_id, job_id, tenant_id, end_state, started_at, finished_at)
        select h.run_id, h.job_id, h.tenant_id, h.end_state, h.started_at, h.finished_at from duetime.history h
        where h.tenant_id = old.tenant_id and h.run_id = old.id
            and h.end_state is not null
            and (h.end_state <> 7 or h.fence > 0) -- an occurrence that no worker was given: nothing follows from it
        order by h.fence desc limit 1
    on conflict do nothing;
    if found then
        perform pg_notify('duetime', 'ended');
    end if;
    return null;
end $$;
revoke execute on function duetime.note_end from public; -- to make triggers of it; nobody needs a right to set one off
create constraint trigger runs_followed after delete on duetime.runs deferrable initially deferred
    for each row when (old.followed) execute function duetime.note_end();

-- Jobs that wait for others: by which rule, and how the others stand.
create table duetime.dependents (
    job_id uuid primary key,
    tenant_id integer not null,
    run_id uuid not null,
    need smallint not null,
    wanted smallint not null,
    otherwise smallint not null,
    unended integer not null,
    met integer not null,
    unmet integer not null,
    settled boolean not null
) with (fillfactor = 70);

create table duetime.edges (
    parent_id uuid not null,
    child_id uuid not null,
    tenant_id integer not null,
    state smallint, -- how the parent ended, once that has been counted
    primary key (parent_id, child_id)
) with (fillfactor = 80);
create index edges_of_child on duetime.edges (child_id, parent_id);

create table duetime.graphs (
    id uuid primary key,
    tenant_id integer not null,
    name text,
    nodes integer not null,
    unended integer not null,
    created_at timestamptz not null,
    ended_at timestamptz,
    status text not null default 'RUNNING' -- once it is over, how
);
create index graphs_of_tenant on duetime.graphs (tenant_id, id);
create index graphs_ended on duetime.graphs (ended_at) where ended_at is not null;
create index graphs_alive on duetime.graphs (tenant_id) where ended_at is null;

create table duetime.nodes (
    job_id uuid primary key,
    graph_id uuid not null,
    place integer not null,
    tenant_id integer not null,
    name text not null,
    task text not null,
    run_id uuid not null,
    state smallint, -- how its newest run ended
    started_at timestamptz,
    finished_at timestamptz
) with (fillfactor = 80);
create index nodes_of_graph on duetime.nodes (graph_id, place);

-- Jobs that run after each run of another.
create table duetime.followers (
    parent_id uuid not null,
    job_id uuid not null,
    tenant_id integer not null,
    wanted smallint not null,
    primary key (parent_id, job_id)
);
create index followers_by_job on duetime.followers (job_id);

alter table duetime.dead_letters add column fingerprint text;
create index dead_letters_by_fingerprint on duetime.dead_letters (tenant_id, fingerprint, run_id);

do $$
declare
    name text;
begin
    foreach name in array array['ended', 'dependents', 'edges', 'graphs', 'nodes', 'followers']
    loop
        execute format('alter table duetime.%I enable row level security', name);
        execute format('create policy own on duetime.%I to duetime_tenant using'
            ' (tenant_id = any (array[duetime.current_tenant()]))', name);
        execute format('grant select, insert, update, delete on duetime.%I to duetime_tenant', name);
    end loop;
end $$;
