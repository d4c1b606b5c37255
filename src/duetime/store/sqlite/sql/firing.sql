-- due_cursors: the cursors in view, as one value: the interpreter's lock is let go for each row that is read
select json_group_array(json_array(lower(hex(job_id)), tenant_id, queue, tier, task, hex(schedule), next_fire_at,
    iif(options is null, null, hex(options)), made, exact, iif(owed is null, null, hex(owed))))
from (
    select c.job_id, j.tenant_id, j.queue, j.tier, j.task, j.schedule, c.next_fire_at, j.options, c.made, c.exact, c.owed
    from cursors c join jobs j on j.id = c.job_id
    where c.scan_at <= :now and c.backlog_of is null order by c.scan_at limit :limit);

-- due_in_backlog: the first cursors of a tenant's backlog, as one value
select json_group_array(json_array(lower(hex(job_id)), tenant_id, queue, tier, task, hex(schedule), next_fire_at,
    iif(options is null, null, hex(options)), made, exact, iif(owed is null, null, hex(owed))))
from (
    select c.job_id, j.tenant_id, j.queue, j.tier, j.task, j.schedule, c.next_fire_at, j.options, c.made, c.exact, c.owed
    from cursors c join jobs j on j.id = c.job_id
    where c.backlog_of = :tenant_id order by c.scan_at limit :limit);

-- backlogs: the tenants that have a backlog and are not suspended; others of them each time, where there are more than can
-- have a share
with recursive waiting (id) as (
    select min(backlog_of) from cursors where backlog_of is not null
    union all
    select (select min(c.backlog_of) from cursors c where c.backlog_of > w.id) from waiting w where w.id is not null
)
select t.id, t.fires_per_second, r.used_until
from waiting w cross join tenants t on t.id = w.id left join fire_rates r on r.tenant_id = t.id
where t.state = TenantState.ACTIVE order by (t.id * 7919 + :now) % 10007 limit :most;

-- admit_fires: the tenants that may not fire all that is due: whether none, because they are suspended or others stand before
-- these in a backlog, and their rates
select t.id, t.state <> TenantState.ACTIVE or exists (select 1 from cursors c where c.backlog_of = t.id),
    t.fires_per_second, r.used_until
from json_each(:tenants) x cross join tenants t on t.id = x.value left join fire_rates r on r.tenant_id = t.id
where t.state <> TenantState.ACTIVE or t.fires_per_second is not null
    or exists (select 1 from cursors c where c.backlog_of = t.id);

-- put_in_backlogs: have cursors wait until their tenants may fire them
update cursors set backlog_of = f.tenant_id
from (select substr(:ids, key * 16 + 1, 16) as job_id, value as tenant_id from json_each(:tenants)) f
where cursors.job_id = f.job_id;

-- charge_fires: how far rates are used up
insert into fire_rates (tenant_id, used_until) select x.value ->> 0, x.value ->> 1 from json_each(:rates) x where true
on conflict (tenant_id) do update set used_until = excluded.used_until;

-- live_runs_of: the live runs of jobs that are decided when they are due, as one value
select json_group_array(json_array(lower(hex(job_id)), lower(hex(id)), running)) from (
    select r.job_id, r.id, r.worker_id is not null as running
    from json_each(:tenants) x cross join runs r on r.tenant_id = x.value and r.job_id = substr(:ids, x.key * 16 + 1, 16)
    order by r.id);

-- make_runs: make runs of stored jobs; those that are blocked have no lane yet
insert into runs (id, job_id, tenant_id, lane_id, home_lane, waits, manual, due_at, ready_at, args, options,
    timeout_ms, followed)
select substr(:ids, x.key * 32 + 17, 16), j.id, j.tenant_id, iif(x.value ->> 3, null, x.value ->> 0), x.value ->> 0,
    x.value ->> 3, :manual, x.value ->> 1, max(x.value ->> 2, :now), j.args, j.options, j.timeout_ms, j.followed
from json_each(:words) x cross join jobs j on j.id = substr(:ids, x.key * 32 + 1, 16)
where true on conflict (id) do nothing;

-- skip_runs: keep occurrences that made no run, and why
insert into history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state, due_at,
    finished_at, error)
select substr(:ids, x.key * 32 + 17, 16), j.id, j.tenant_id, x.value ->> 0, 0, 0, 0, AttemptState.SKIPPED,
    RunState.SKIPPED, x.value ->> 1, :now, x.value ->> 2
from json_each(:words) x cross join jobs j on j.id = substr(:ids, x.key * 32 + 1, 16);

-- keep_fences: a run that was made again goes on with the fence of its claims
update runs set fence = :fence where id = :run_id and fence = 0 and worker_id is null;

-- move_cursors: move the cursors of recurring jobs on: one that is late comes after those that wait already
update cursors
set next_fire_at = f.next_fire_at, scan_at = max(f.scan_at, :now), last_fire_at = coalesce(f.last_fire_at, cursors.last_fire_at),
    made = cursors.made + f.made, missed = cursors.missed + f.missed, owed = null, backlog_of = null
from (
    select substr(:ids, key * 16 + 1, 16) as job_id, value ->> 0 as next_fire_at, value ->> 1 as scan_at,
        value ->> 2 as last_fire_at, value ->> 3 as made, value ->> 4 as missed
    from json_each(:words)) f
where cursors.job_id = f.job_id;

-- end_cursors: end recurring jobs that have no further occurrence, and move the rows of one-offs out
update jobs set state = JobState.ENDED, ended_at = :now, made = f.made, missed = f.missed
from (
    select c.job_id, c.made + (x.value ->> 0) as made, c.missed + (x.value ->> 1) as missed
    from json_each(:words) x cross join cursors c on c.job_id = substr(:ids, x.key * 16 + 1, 16)
    where x.value ->> 2) f
where jobs.id = f.job_id;
delete from cursors where job_id in (select substr(:ids, key * 16 + 1, 16) from json_each(:words));
delete from jobs where id in (select substr(:ids, key * 16 + 1, 16) from json_each(:words) where not value ->> 2);

-- set_aside: pause a job that cannot be processed where it stands, and say why
update jobs set state = JobState.PAUSED, problem = :problem where id = :job_id;
update cursors set scan_at = 253370764800000000, backlog_of = null where job_id = :job_id;

-- unblock: give their lanes to runs that waited for other runs of their job, now that those are over. Of several that
-- wait, only the first: it is what the next one waits for
update runs set lane_id = home_lane, waits = WaitsFor.NOTHING, ready_at = max(due_at, :now)
where id in (
    select b.id from runs b where b.lane_id is null and b.waits = WaitsFor.OTHER_RUNS and not exists (
        select 1 from runs o where o.tenant_id = b.tenant_id and o.job_id = b.job_id
            and (o.lane_id is not null or o.id < b.id))
    limit :limit)
returning id;

-- next_scan: the first cursor above a moment
select min(scan_at) from cursors where scan_at >= :since and backlog_of is null;
