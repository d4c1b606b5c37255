-- Dependencies between jobs, graphs and chains of them; and fingerprints of dead letters.

-- Somebody waits for the end: of any run of this job, of this run.
alter table jobs add column followed integer not null default 0;
alter table runs add column followed integer not null default 0;
create index runs_followed on runs (id) where followed;

-- A run without a lane waits for something else than time; 2: for its parents. The scanner looks at those of kind 1.
drop index runs_blocked;
create index runs_blocked on runs (tenant_id, job_id) where lane_id is null and waits = 1;

-- Ends that somebody waits for and that have not been handed on. Written in the transaction of the end itself.
create table ended (
    run_id blob primary key,
    job_id blob not null,
    tenant_id integer not null,
    end_state integer not null,
    started_at integer,
    finished_at integer not null
) strict, without rowid;
create index ended_by_job on ended (job_id);

-- Jobs that wait for others: by which rule, and how the others stand.
create table dependents (
    job_id blob primary key,
    tenant_id integer not null,
    run_id blob not null,
    need integer not null,
    wanted integer not null,
    otherwise integer not null,
    unended integer not null,
    met integer not null,
    unmet integer not null,
    settled integer not null
) strict, without rowid;

create table edges (
    parent_id blob not null,
    child_id blob not null,
    tenant_id integer not null,
    state integer, -- how the parent ended, once that has been counted
    primary key (parent_id, child_id)
) strict, without rowid;
create index edges_of_child on edges (child_id, parent_id);

create table graphs (
    id blob primary key,
    tenant_id integer not null,
    name text,
    nodes integer not null,
    unended integer not null,
    created_at integer not null,
    ended_at integer,
    status text not null default 'RUNNING' -- once it is over, how
) strict;
create index graphs_of_tenant on graphs (tenant_id, id);
create index graphs_ended on graphs (ended_at) where ended_at is not null;
create index graphs_alive on graphs (tenant_id) where ended_at is null;

create table nodes (
    job_id blob primary key,
    graph_id blob not null,
    place integer not null,
    tenant_id integer not null,
    name text not null,
    task text not null,
    run_id blob not null,
    state integer, -- how its newest run ended
    started_at integer,
    finished_at integer
) strict;
create index nodes_of_graph on nodes (graph_id, place);

-- Jobs that run after each run of another.
create table followers (
    parent_id blob not null,
    job_id blob not null,
    tenant_id integer not null,
    wanted integer not null,
    primary key (parent_id, job_id)
) strict, without rowid;
create index followers_by_job on followers (job_id);

alter table dead_letters add column fingerprint text;
create index dead_letters_by_fingerprint on dead_letters (tenant_id, fingerprint, run_id);
