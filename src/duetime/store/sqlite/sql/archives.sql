-- days_in_history: days with rows that are in no file yet
select distinct h.finished_at / 86400000000 as day from history h
left join archive_days d on d.day = h.finished_at / 86400000000
where h.finished_at < :before and (d.archived_at is null or d.mark is null or h.rowid > d.mark)
order by day;

-- tenants_of_day: the tenants with rows on a day
select tenant_id, count(*) as count from history where finished_at >= :start and finished_at < :end
group by tenant_id order by tenant_id;

-- count_of_day: how many rows a day has, and the last row of history
select (select count(*) from history where finished_at >= :start and finished_at < :end) as count,
    (select coalesce(max(rowid), 0) from history) as seen;

-- rows_of_day: the next rows of a tenant's day
select run_id, job_id, worker_id, lane_id, fence, attempt, lost, attempt_state, end_state, failure, timeout_ms, due_at,
    ready_at, started_at, first_started_at, finished_at, args, options, result, logs, error
from history indexed by history_of_tenant
where tenant_id = :tenant_id and run_id > :after and finished_at >= :start and finished_at < :end
order by run_id, fence, finished_at limit :limit;

-- restore_history: put a row of history back
insert into history (run_id, job_id, fence, attempt, lost, attempt_state, end_state, failure, due_at, ready_at, started_at,
    first_started_at, finished_at, worker_id, timeout_ms, args, options, result, logs, error, lane_id, tenant_id)
select :run_id, :job_id, :fence, :attempt, :lost, :attempt_state, :end_state, :failure, :due_at, :ready_at, :started_at,
    :first_started_at, :finished_at, :worker_id, :timeout_ms, :args, :options, :result, :logs, :error, :lane_id, :tenant_id
where not exists (select 1 from history h where h.tenant_id = :tenant_id and h.run_id = :run_id and h.fence = :fence
    and h.attempt_state = :attempt_state and h.finished_at = :finished_at)
returning run_id;

-- note_removed_history: reads look into the files of the days that are about to be removed
update archive_parts set removed = 1 where not removed and day in (
    select day from archive_days where released_at is not null and removed_at is null and day < :day);
update archive_days set removed_at = :now where released_at is not null and removed_at is null and day < :day;
