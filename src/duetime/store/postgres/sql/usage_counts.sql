-- begin_usage_day: a day is about to be counted
insert into duetime.usage_days (day, counted_at) values ($1, '-infinity') on conflict do nothing;

-- hold_usage_day: a day that is not closed, unless another node counts it
select counted_at from duetime.usage_days where day = $1 and closed_at is null for update skip locked;

-- usage_days: the days that were counted, and until when
select day, counted_at, closed_at from duetime.usage_days order by day;

-- forget_usage_of_day: before a day is written anew
delete from duetime.usage where day = $1;

-- put_usage: what tenants used on a day
insert into duetime.usage (tenant_id, day, queue, runs, failed, attempts, run_us, bytes)
select x.tenant_id, $1, coalesce(l.queue, ''), sum(x.runs)::bigint, sum(x.failed)::bigint, sum(x.attempts)::bigint,
    sum(x.run_us)::bigint, sum(x.bytes)::bigint
from unnest($2::int[], $3::int[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
    as x(tenant_id, lane_id, runs, failed, attempts, run_us, bytes)
left join duetime.lanes l on l.id = x.lane_id
-- Rows may have been read before their tenant was erased.
where not exists (select 1 from duetime.erasures e where e.tenant_id = x.tenant_id and e.started_at is not null)
group by x.tenant_id, coalesce(l.queue, '');

-- end_usage_day: note when a day was counted, whether that was the last time, and how long jobs keep rows of it
update duetime.usage_days set counted_at = $2, closed_at = $3, rows = $4, keeps = $5::int[], only_kept = false where day = $1;

-- keeps_of_day: for how many days jobs keep rows of a closed day, and whether it has no others
select keeps, only_kept from duetime.usage_days where day = $1 and closed_at is not null;

-- retentions_of_jobs: for how many days jobs keep rows of a closed day
select day, keeps from duetime.usage_days where closed_at is not null and keeps <> '{}';

-- counted_usage_day: how many rows a closed day had when it was counted
select rows from duetime.usage_days where day = $1 and closed_at is not null;

-- note_restored_usage: rows of a day come back, so that it cannot be compared any more, and has to be archived again
with archived as (update duetime.archive_days set dropped_at = coalesce(dropped_at, duetime.now()) where day = $1)
update duetime.usage_days set rows = null, only_kept = false where day = $1;

-- prune_usage_days: forget which days were counted, but not while history has a table of the day: it would be counted
-- again, and what jobs keep of it would be unknown
delete from duetime.usage_days
where day < $1 and to_regclass('duetime.history_' || to_char(date 'epoch' + day, 'YYYYMMDD')) is null;
