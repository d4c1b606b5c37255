-- spend: spend an id; returns it if it was not spent before
insert into spent (run_id) values (:id) on conflict do nothing returning run_id;

-- end_carried: end a carried run as SUCCEEDED
insert into history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state, due_at, ready_at,
    started_at, finished_at, worker_id, timeout_ms, args, options, result, logs)
values (?1, ?2, ?3, ?4, 1, 1, 0, AttemptState.SUCCEEDED, RunState.SUCCEEDED, min(?5, ?7), min(?5, ?7),
    min(max(?6, ?5), ?7), ?7, ?8, ?9, ?10, ?11, ?12, ?13);

-- land: store a carried run
insert into runs (id, job_id, tenant_id, lane_id, home_lane, fence, attempt, lost, claim_no, worker_id, due_at, ready_at,
    started_at, args, options, timeout_ms)
values (:id, :job_id, :tenant_id, :lane_id, :home_lane, :suspect or :worker_id is not null, :worker_id is not null,
    :suspect, :claim_no, :worker_id, min(:due, :now), case when :worker_id is null then :now else min(:due, :now) end,
    case when :worker_id is not null then min(max(:start, :due), :now) end, :args, :options, :timeout_ms);
insert into history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, failure, due_at, finished_at,
    timeout_ms, error)
select id, job_id, tenant_id, home_lane, fence, attempt, lost, AttemptState.LOST, FailureClass.LOST, due_at, :now,
    timeout_ms, 'its worker was lost'
from runs where id = :id and :suspect;

-- landed_before: the runs of a claim that this call made before
select r.id from json_each(:places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
where r.worker_id = :worker_id and r.claim_no = :claim_no;

-- forget_spent: days before this one are never remembered again
insert into meta (name, value) values (:name, :day)
on conflict (name) do update set value = max(value, excluded.value);

-- first_spent: the earliest id that is remembered
select min(run_id) from spent;

-- prune_spent: remove ids of forgotten days
delete from spent where run_id in (select run_id from spent where run_id < :before order by run_id limit :batch);

-- is_streamed: whether a queue goes through a stream
select exists (select 1 from stream_queues where tenant_id = :tenant_id and queue = :queue and current) as known;
