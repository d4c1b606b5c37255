-- cancel_waiting: end runs that wait
insert into events (at, kind, tenant_id, ids)
select :now, EventKind.CANCELLED, :tenant_id, r.id
from json_each(:ids_places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16) cross join listening l
where r.tenant_id = :tenant_id and r.worker_id is null and l.one = 1 and l.until > :now;
insert into ended (run_id, job_id, tenant_id, end_state, finished_at)
select r.id, r.job_id, r.tenant_id, RunState.CANCELLED, :now
from json_each(:ids_places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
where r.tenant_id = :tenant_id and r.worker_id is null and r.followed;
insert into history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state, failure,
    due_at, ready_at, first_started_at, finished_at, timeout_ms, args, options, error)
select r.id, r.job_id, r.tenant_id, r.home_lane, r.fence, r.attempt, r.lost, AttemptState.CANCELLED,
    RunState.CANCELLED, FailureClass.CANCELLED, r.due_at, r.ready_at, r.first_started_at, :now, r.timeout_ms, r.args,
    r.options, :error
from json_each(:ids_places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
where r.tenant_id = :tenant_id and r.worker_id is null;
delete from runs where id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:ids_places) x)
    and +tenant_id = :tenant_id and worker_id is null;

-- ask_to_stop: ask the workers of running runs to stop them
insert into cancels (worker_id, run_id, requested_at, replaced)
select r.worker_id, r.id, :now, :replaced
from json_each(:ids_places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
where r.tenant_id = :tenant_id and r.worker_id is not null
on conflict do nothing;
update runs set cancel_requested = 1
where id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:ids_places) x)
    and +tenant_id = :tenant_id and worker_id is not null;
