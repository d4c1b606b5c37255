-- The clock, and moments as numbers.

-- `now` is constant within a statement, so that it can bound an index range; `clock` is not. All code uses these two,
-- and tests replace them to move time.
create or replace function duetime.now() returns timestamptz language sql stable parallel safe as 'select pg_catalog.now()';

create or replace function duetime.clock() returns timestamptz language sql volatile parallel safe
    as 'select pg_catalog.clock_timestamp()';

-- A moment as microseconds since 1970: cheap to send and decode for many rows.
create or replace function duetime.stamp(moment timestamptz) returns bigint language sql stable parallel safe
    as 'select (pg_catalog.date_part(''epoch'', moment) * 1000000)::bigint';

-- The reverse, in two steps: a distant moment as one number of microseconds would not fit into a double.
create or replace function duetime.moment(stamp bigint) returns timestamptz language sql stable parallel safe as $$
    select timestamptz 'epoch' + stamp / 1000000 * interval '1 second' + stamp % 1000000 * interval '1 microsecond' $$;

-- For how many days the database keeps the runs of a job; null: as long as all others. Nothing but an option has this name
-- and is followed by a colon: in texts, quotes are escaped.
create or replace function duetime.kept_days(options bytea) returns integer language sql immutable parallel safe as $$
    select case when position('"retention":'::bytea in options) > 0
        then ceil((convert_from(options, 'UTF8')::json ->> 'retention')::float8 / 86400)::integer end $$;
