-- What people want to know of a worker: which duetime it is, when it was heard of last, what its attempts have logged.
alter table workers add column version text not null default '';
alter table workers add column heard_at integer not null default 0;

-- Since when its lease has held without a break. One that is renewed after it was over was broken by a clock that stepped
-- or a machine that slept: what of a timeout had passed before that, the database's clock cannot tell.
alter table workers add column held_since integer not null default 0;

-- What running attempts have logged so far. Beside the runs, because few say anything before they end.
create table live_logs (
    run_id blob primary key,
    fence integer not null,
    logs blob not null,
    at integer not null
) strict, without rowid;
create index live_logs_by_age on live_logs (at);
