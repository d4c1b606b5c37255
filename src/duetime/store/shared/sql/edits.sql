-- edit_job: write what an edit makes of a job; every edit raises its version
update duetime.jobs
set task = :task, queue = :queue, tier = :tier, args = :args, options = :options, timeout_ms = :timeout_ms,
    schedule = :schedule, recurring = :recurring, version = version + 1,
    problem = case when :starts_anew::boolean then null else problem end
where tenant_id = :tenant_id and id = :job_id;

-- place_cursor: put the cursor of an edited job; its counts go on
insert into duetime.cursors (job_id, scan_at, next_fire_at, last_fire_at, exact, made, missed)
select id, greatest(:scan_at::timestamptz, duetime.clock()), :next_fire_at::timestamptz, :last_fire_at::timestamptz,
    :exact::boolean, made, missed
from duetime.jobs where id = :job_id
on conflict (job_id) do update set scan_at = excluded.scan_at, next_fire_at = excluded.next_fire_at,
    last_fire_at = excluded.last_fire_at, exact = excluded.exact, made = greatest(0, cursors.made - :withdrawn::int),
    owed = case when :starts_anew::boolean then null else cursors.owed end, backlog_of = null;

-- revise_runs: let waiting runs of a job say what it says now; what changes its lane, or was put off, is ready anew
update duetime.runs as r
set args = j.args, options = j.options, timeout_ms = j.timeout_ms, home_lane = :lane_id::int,
    lane_id = case when r.lane_id is null then null else :lane_id::int end, parked_by = null, put_off_by = null,
    ready_at = case when r.home_lane = :lane_id::int and coalesce(r.lane_id, :lane_id::int) = :lane_id::int
        and r.put_off_by is null then r.ready_at else greatest(r.due_at, duetime.clock()) end
from duetime.jobs j
where j.id = :job_id and r.tenant_id = :tenant_id and r.job_id = :job_id and r.fence = 0 and not r.manual;

-- is_waited_for: whether a run waits for the end of a job
select 1 as known from duetime.edges e
join duetime.dependents d on d.job_id = e.child_id and not d.settled
join duetime.runs r on r.id = any(array[d.run_id]) and r.lane_id is null and r.waits = WaitsFor.PARENTS
where e.tenant_id = :tenant_id and e.parent_id = :job_id and e.state is null limit 1;

-- drop_labels: forget what a job is found by
delete from duetime.labels where tenant_id = :tenant_id and job_id = :job_id;

-- drop_said_labels: forget what an edited job was found by; its key stays
delete from duetime.labels where tenant_id = :tenant_id and job_id = :job_id and kind <> 'k';

-- drop_payload_ref: forget a payload that an edited job does not name any more, unless runs were made that do
delete from duetime.payload_refs
where payload_id = :payload_id and tenant_id = :tenant_id and job_id = :job_id
    and not exists (
        select 1 from duetime.runs r where r.tenant_id = :tenant_id and r.job_id = :job_id and (r.fence > 0 or r.manual))
    and not exists (select 1 from duetime.history h where h.tenant_id = :tenant_id and h.job_id = :job_id
        and h.end_state is not null)
    and not exists (select 1 from duetime.dead_letters d where d.job_id = :job_id);
