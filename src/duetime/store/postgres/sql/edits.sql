-- edit_job: write what an edit makes of a job; every edit raises its version
update duetime.jobs
set task = $3, queue = $4, tier = $5, args = $6, options = $7, timeout_ms = $8, schedule = $9, recurring = $10,
    version = version + 1, problem = case when $11::boolean then null else problem end
where tenant_id = $1 and id = $2;

-- place_cursor: put the cursor of an edited job; its counts go on
insert into duetime.cursors (job_id, scan_at, next_fire_at, last_fire_at, exact, made, missed)
select id, greatest($2::timestamptz, duetime.clock()), $3::timestamptz, $4::timestamptz, $5::boolean, made, missed
from duetime.jobs where id = $1
on conflict (job_id) do update set scan_at = excluded.scan_at, next_fire_at = excluded.next_fire_at,
    last_fire_at = excluded.last_fire_at, exact = excluded.exact, made = greatest(0, cursors.made - $6::int),
    owed = case when $7::boolean then null else cursors.owed end, backlog_of = null;

-- revise_runs: let waiting runs of a job say what it says now; what changes its lane, or was put off, is ready anew
update duetime.runs r
set args = j.args, options = j.options, timeout_ms = j.timeout_ms, home_lane = $3::int,
    lane_id = case when r.lane_id is null then null else $3::int end, parked_by = null, put_off_by = null,
    ready_at = case when r.home_lane = $3::int and coalesce(r.lane_id, $3::int) = $3::int and r.put_off_by is null
        then r.ready_at else greatest(r.due_at, duetime.clock()) end
from duetime.jobs j
where j.id = $2 and r.tenant_id = $1 and r.job_id = $2 and r.fence = 0 and not r.manual;

-- drop_payload_ref: forget a payload that an edited job does not name any more, unless runs were made that do
delete from duetime.payload_refs
where payload_id = $3 and tenant_id = $1 and job_id = $2
    and not exists (select 1 from duetime.runs r where r.tenant_id = $1 and r.job_id = $2 and (r.fence > 0 or r.manual))
    and not exists (select 1 from duetime.history h where h.tenant_id = $1 and h.job_id = $2
        and h.end_state is not null)
    and not exists (select 1 from duetime.dead_letters d where d.job_id = $2);
