-- repeat_runs: make runs in place of others that are over
insert into duetime.runs (id, job_id, tenant_id, lane_id, home_lane, due_at, ready_at, args, options, timeout_ms,
    manual, followed)
select x.id, x.job_id, :tenant_id, x.lane, x.lane, x.due_at, greatest(x.ready_at, duetime.clock()), x.args, x.options,
    x.timeout_ms, true, exists (select 1 from duetime.jobs j where j.id = x.job_id and j.followed)
        or exists (select 1 from duetime.nodes n where n.job_id = x.job_id)
from unnest(:run_id::uuid[], :job_id::uuid[], :lane_id::int[], :due_at::timestamptz[], :ready_at::timestamptz[],
            :args::bytea[], :options::bytea[], :timeout_ms::int[])
    as x(id, job_id, lane, due_at, ready_at, args, options, timeout_ms)
on conflict (id) do nothing;

-- lock_repeat: hold a run that is over against others who would repeat it
select pg_advisory_xact_lock(hashtextextended('duetime r ' || :tenant_id::int || ' ' || :key::text, 0));
