-- The clock, and moments as numbers.

-- `now` stands still for a statement, so that it can bound an index range; `clock` does not. All code asks these two, and
-- tests move time by replacing them.
create or replace function duetime.now() returns timestamptz language sql stable parallel safe as 'select pg_catalog.now()';

create or replace function duetime.clock() returns timestamptz language sql volatile parallel safe
    as 'select pg_catalog.clock_timestamp()';

-- A moment as the number of microseconds since 1970: cheap to send and to read, where many rows carry some.
create or replace function duetime.stamp(moment timestamptz) returns bigint language sql stable parallel safe
    as 'select (pg_catalog.date_part(''epoch'', moment) * 1000000)::bigint';

-- And back, in two steps: as one number of microseconds a distant moment would not fit into a double.
create or replace function duetime.moment(stamp bigint) returns timestamptz language sql stable parallel safe as $$
    select timestamptz 'epoch' + stamp / 1000000 * interval '1 second' + stamp % 1000000 * interval '1 microsecond' $$;
