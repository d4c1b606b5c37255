-- What people want to know of a worker: which duetime it is, and when it was heard of last.
alter table duetime.workers add column version text not null default '';
alter table duetime.workers add column heard_at timestamptz not null default pg_catalog.now();
