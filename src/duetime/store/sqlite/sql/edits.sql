-- edit_job: write what an edit makes of a job; every edit raises its version
update jobs
set task = :task, queue = :queue, tier = :tier, args = :args, options = :options, timeout_ms = :timeout_ms,
    schedule = :schedule, recurring = :recurring, version = version + 1,
    problem = case when :starts_anew then null else problem end
where tenant_id = :tenant_id and id = :job_id;

-- place_cursor: put the cursor of an edited job; its counts go on
insert into cursors (job_id, scan_at, next_fire_at, last_fire_at, exact, made, missed)
select id, :scan_at, :next_fire_at, :last_fire_at, :exact, made, missed from jobs where id = :job_id
on conflict (job_id) do update set scan_at = excluded.scan_at, next_fire_at = excluded.next_fire_at,
    last_fire_at = excluded.last_fire_at, exact = excluded.exact, made = max(0, cursors.made - :withdrawn),
    owed = case when :starts_anew then null else cursors.owed end, backlog_of = null;

-- revise_runs: let waiting runs of a job say what it says now; what changes its lane, or was put off, is ready anew
update runs
set args = j.args, options = j.options, timeout_ms = j.timeout_ms, home_lane = :lane_id,
    lane_id = case when runs.lane_id is null then null else :lane_id end, parked_by = null, put_off_by = null,
    ready_at = case when runs.home_lane = :lane_id and coalesce(runs.lane_id, :lane_id) = :lane_id and runs.put_off_by is null
        then runs.ready_at else max(runs.due_at, :now) end
from jobs j
where j.id = :job_id and runs.tenant_id = :tenant_id and runs.job_id = :job_id and runs.fence = 0 and not runs.manual;

-- drop_payload_ref: forget a payload that an edited job does not name any more, unless runs were made that do
delete from payload_refs
where payload_id = :payload_id and tenant_id = :tenant_id and job_id = :job_id
    and not exists (
        select 1 from runs r where r.tenant_id = :tenant_id and r.job_id = :job_id and (r.fence > 0 or r.manual))
    and not exists (select 1 from history h where h.tenant_id = :tenant_id and h.job_id = :job_id
        and h.end_state is not null)
    and not exists (select 1 from dead_letters d where d.job_id = :job_id);
