-- repeat_runs: make a run in place of another that is over
insert into runs (id, job_id, tenant_id, lane_id, home_lane, due_at, ready_at, args, options, timeout_ms, manual, followed)
values (:run_id, :job_id, :tenant_id, :lane_id, :lane_id, :due_at, :ready_at, :args, :options, :timeout_ms, 1,
    exists (select 1 from jobs j where j.id = :job_id and j.followed)
    or exists (select 1 from nodes n where n.job_id = :job_id))
on conflict (id) do nothing;
