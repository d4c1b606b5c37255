-- leave_day_to_files: prepare the removal of a released day: reads look into its files from now on
with day as (
    update duetime.archive_days set removed_at = coalesce(removed_at, $2::timestamptz)
    where day = $1 and released_at is not null and (restored_until is null or restored_until < $2)
    returning day
),
parts as (update duetime.archive_parts p set removed = true from day where p.day = day.day and not p.removed)
select day from day;

-- note_dropped_day: record that a day is dropped (or, of one that jobs keep rows of, nothing), if it has as many rows as were
-- archived
update duetime.archive_days set dropped_at = case when $4 then dropped_at else $2::timestamptz end
where day = $1 and released_at is not null and rows = $3 returning day;

-- note_thinned_day: rows of a day were removed
with counted as (update duetime.usage_days set rows = rows - $2::bigint where day = $1)
update duetime.archive_days set rows = rows - $2::bigint where day = $1;

-- note_kept_rows: a day has only rows that jobs keep for so many days
with counted as (update duetime.usage_days set keeps = $2::int[], only_kept = true, rows = $3::bigint where day = $1)
update duetime.archive_days set rows = $3::bigint where day = $1;

-- archive_day_again: archive a day once more
update duetime.archive_days set archived_at = null, released_at = null, dropped_at = null, pass_no = pass_no + 1,
    problem = $2 where day = $1;

-- days_in_files: days whose rows are all in files
select day from duetime.archive_days where archived_at is not null and dropped_at is null;

-- restore_history: put rows of history back
insert into duetime.history (run_id, job_id, fence, attempt, lost, attempt_state, end_state, failure, due_at, ready_at,
    started_at, first_started_at, finished_at, worker_id, timeout_ms, args, options, result, logs, error, lane_id, tenant_id)
select x.* from unnest(:run_id::uuid[], :job_id::uuid[], :fence::integer[], :attempt::smallint[], :lost::smallint[],
    :attempt_state::smallint[], :end_state::smallint[], :failure::smallint[], :due_at::timestamptz[],
    :ready_at::timestamptz[], :started_at::timestamptz[], :first_started_at::timestamptz[], :finished_at::timestamptz[],
    :worker_id::uuid[], :timeout_ms::integer[], :args::bytea[], :options::bytea[], :result::bytea[], :logs::bytea[],
    :error::text[], :lane_id::integer[], :tenant_id::integer[]) as x(run_id, job_id, fence, attempt, lost, attempt_state,
    end_state, failure, due_at, ready_at, started_at, first_started_at, finished_at, worker_id, timeout_ms, args, options,
    result, logs, error, lane_id, tenant_id)
where not exists (select 1 from duetime.history h where h.tenant_id = x.tenant_id and h.run_id = x.run_id
    and h.fence = x.fence and h.attempt_state = x.attempt_state and h.finished_at = x.finished_at)
returning run_id;
