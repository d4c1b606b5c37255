-- Policies of recurring jobs: what is decided when a fire is due, and what is counted of it.

alter table cursors add column exact integer not null default 0; -- decided when due: never fired ahead of its time
alter table cursors add column made integer not null default 0;
alter table cursors add column missed integer not null default 0;
alter table cursors add column owed blob; -- occurrences whose runs were withdrawn, to be decided about together with what is missed

-- A run without a lane waits for something else than time; 1: for the other runs of its job.
alter table runs add column waits integer not null default 0;
alter table runs add column manual integer not null default 0; -- triggered or backfilled: not taken back
create index runs_blocked on runs (tenant_id, job_id) where lane_id is null;
