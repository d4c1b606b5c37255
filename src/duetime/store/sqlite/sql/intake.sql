-- insert_once: store one-off jobs that are not due within the look-ahead, each with its cursor
insert into jobs (id, tenant_id, task, queue, tier, schedule, recurring, args, options, timeout_ms, version, created_at)
values (:id, :tenant_id, :task, :queue, :tier, :schedule, 0, :args, :options, :timeout_ms, :version, :now);
insert into cursors (job_id, scan_at, next_fire_at) values (:id, :scan_at, :due_at);

-- insert_ready: store one-off jobs that are due within the look-ahead: the fast path to their runs
insert into runs (id, job_id, tenant_id, lane_id, home_lane, due_at, ready_at, args, options, timeout_ms)
values (?1, ?2, ?3, ?4, ?4, ?5, ?5, ?6, ?7, ?8);

-- insert_recurring: store one recurring job and its cursor
insert into jobs (id, tenant_id, task, queue, tier, schedule, recurring, args, options, timeout_ms, version, created_at)
values (:id, :tenant_id, :task, :queue, :tier, :schedule, 1, :args, :options, :timeout_ms, :version, :now);
insert into cursors (job_id, scan_at, next_fire_at, exact) values (:id, :scan_at, :next_fire_at, :exact);
insert into events (at, kind, tenant_id, ids)
select :now, EventKind.SUBMITTED, :tenant_id, :id from listening l where l.one = 1 and l.until > :now;

-- find_keys: what a key leads to, and its queue if that has a stream
select :kind as kind, :key as key, k.job_id, k.run_id, k.fingerprint, k.next_run, s.queue from (select 1) as one
left join keys k on k.tenant_id = :tenant_id and k.kind = :kind and k.key = :key
left join stream_queues s on s.tenant_id = :tenant_id and s.queue = :queue and not s.retired
where k.key is not null or s.queue is not null;

-- known_keys: whether a key leads to an earlier request, or to a job that has not ended
select k.kind, k.key from keys k where k.tenant_id = :tenant_id and k.kind = :kind and k.key = :key and (k.kind <> 'k'
    or exists (select 1 from jobs j where j.id = k.job_id and j.state < JobState.ENDED)
    or exists (select 1 from runs r where r.tenant_id = k.tenant_id and r.job_id = k.job_id));

-- spend_ids: spend the id of a run; returns it if it was not spent before
insert into spent (run_id) values (:run_id) on conflict do nothing returning run_id;

-- put_keys: store what keys lead to
insert into keys (tenant_id, kind, key, job_id, run_id, fingerprint, next_run, created_at)
values (:tenant_id, :kind, :key, :job_id, :run_id, :fingerprint, :next_run, :now)
on conflict (tenant_id, kind, key) do update set job_id = excluded.job_id, run_id = excluded.run_id,
    fingerprint = excluded.fingerprint, next_run = excluded.next_run, created_at = excluded.created_at;

-- withdraw_runs: withdraw runs that no worker has ever held; this is not an end state
delete from runs where tenant_id = :tenant_id and job_id = :job_id and fence = 0 and not manual
returning id, due_at, home_lane;

-- withdraw_unstarted: withdraw runs that have not started and that no worker holds; this is not an end state. An attempt
-- that was made has a row in history, even if it spent nothing
delete from runs
where tenant_id = :tenant_id and job_id = :job_id and worker_id is null and attempt = 0 and lost = 0 and not manual
    and (fence = 0 or checkpoint is null and not exists (
        select 1 from history h where h.tenant_id = runs.tenant_id and h.run_id = runs.id))
returning id, due_at, home_lane, fence;

-- put_labels: store the labels of jobs
insert into labels (tenant_id, kind, value, job_id) values (:tenant_id, :kind, :value, :job_id)
on conflict do nothing;

-- put_payload_refs: store which payloads jobs refer to
insert into payload_refs (payload_id, job_id, tenant_id) values (:payload_id, :job_id, :tenant_id)
on conflict do nothing;
