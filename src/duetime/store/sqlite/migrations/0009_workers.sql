-- What people want to know of a worker: which duetime it is, and when it was heard of last.
alter table workers add column version text not null default '';
alter table workers add column heard_at integer not null default 0;
