-- exceptions: of these (run, fence) pairs, those that this worker does not hold any more, or whose cancellation was requested
select x.key, r.id is not null
from json_each(:fences) x left join runs r
    on r.id = substr(:ids, x.key * 16 + 1, 16) and r.fence = x.value and r.worker_id = :worker_id
where r.id is null or r.cancel_requested;

-- which_live: which of these runs are not over
select r.id from json_each(:places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16);

-- close_claims: remove claims that have no runs left; what the sweep has found is for the reaper to forget
delete from claims where worker_id = :worker_id and claim_no in (select value from json_each(:closed))
    and standing = ClaimStanding.CLAIMED;

-- succeed_runs: end runs that succeeded, with a result at most: the short road. If a worker is given, leaves those that
-- it does not hold with this fence, or whose cancellation was requested
insert into history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state, due_at,
    ready_at, started_at, first_started_at, finished_at, worker_id, timeout_ms, args, options, result)
select r.id, r.job_id, r.tenant_id, r.home_lane, r.fence, r.attempt, r.lost, AttemptState.SUCCEEDED, RunState.SUCCEEDED,
    r.due_at, r.ready_at, r.started_at, r.first_started_at, :now, r.worker_id, r.timeout_ms, r.args, r.options,
    substr(:texts, x.value >> 32, x.value & 0xffffffff)
from json_each(:results) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
where :worker_id is null or (r.fence = :fence and r.worker_id = :worker_id and not r.cancel_requested);

-- remove_succeeded: remove runs that are in history now
delete from runs where id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:results) x);

-- end_runs: end runs; failed ones become dead letters too. A skipped run was claimed too late and had no attempt
insert into history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state, failure,
    due_at, ready_at, started_at, first_started_at, finished_at, worker_id, timeout_ms, args, options, result, logs,
    error)
select r.id, r.job_id, r.tenant_id, r.home_lane, r.fence,
    r.attempt - (x.value ->> 0 in (AttemptState.LOST, AttemptState.SKIPPED)), r.lost + (x.value ->> 0 = AttemptState.LOST),
    x.value ->> 0, x.value ->> 1, x.value ->> 2, r.due_at, r.ready_at,
    iif(x.value ->> 0 = AttemptState.SKIPPED, null, r.started_at), r.first_started_at, :now,
    nullif(r.worker_id, zeroblob(16)), r.timeout_ms, r.args, r.options, substr(:texts, x.value ->> 4 >> 32, x.value ->> 4 & 0xffffffff),
    substr(:texts, x.value ->> 5 >> 32, x.value ->> 5 & 0xffffffff), x.value ->> 3
from json_each(:words) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16);
insert or replace into dead_letters (run_id, job_id, tenant_id, lane_id, attempt, lost, failure, error, due_at, died_at,
    timeout_ms, args, options, fingerprint)
select r.id, r.job_id, r.tenant_id, r.home_lane, r.attempt - (x.value ->> 0 = AttemptState.LOST),
    r.lost + (x.value ->> 0 = AttemptState.LOST),
    x.value ->> 2, x.value ->> 3, r.due_at, :now, r.timeout_ms, r.args, r.options, x.value ->> 6
from json_each(:words) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
where x.value ->> 1 = RunState.FAILED;
delete from runs where id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:words) x);

-- retry_runs: make runs wait again, with a row in history for the attempt
insert into history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, failure, due_at,
    started_at, first_started_at, finished_at, worker_id, timeout_ms, logs, error)
select r.id, r.job_id, r.tenant_id, r.home_lane, r.fence, r.attempt - (x.value ->> 0 = AttemptState.LOST),
    r.lost + (x.value ->> 0 = AttemptState.LOST),
    x.value ->> 0, x.value ->> 1, r.due_at, r.started_at, r.first_started_at, :now, r.worker_id, r.timeout_ms,
    substr(:texts, x.value ->> 3 >> 32, x.value ->> 3 & 0xffffffff), x.value ->> 2
from json_each(:words) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16);
update runs
set worker_id = null, claim_no = null, ready_at = :now + x.delay, attempt = attempt - (not x.spent),
    lost = lost + (x.attempt_state = AttemptState.LOST),
    lane_id = coalesce(x.lane_id, case when x.attempt_state = AttemptState.FAILED then runs.home_lane else runs.lane_id end),
    first_started_at = coalesce(first_started_at, started_at),
    -- A snooze spends nothing, so nothing else would show that the run has started and cannot expire any more.
    options = case when x.attempt_state = AttemptState.SNOOZED and instr(options, cast('"expires_in"' as blob)) > 0
            and json_valid(cast(options as text))
        then cast(json_remove(cast(options as text), '$.expires_in') as blob) else options end
from (
    select substr(:ids, key * 16 + 1, 16) as id, value ->> 0 as attempt_state, value ->> 4 as delay,
        value ->> 5 as spent, value ->> 6 as lane_id
    from json_each(:words)) x
where runs.id = x.id;

-- hand_back: make claimed runs wait again as if they had not been claimed
update runs
set worker_id = null, claim_no = null, attempt = attempt - 1, started_at = null, ready_at = :now,
    first_started_at = coalesce(first_started_at, started_at)
from (select substr(:ids, key * 16 + 1, 16) as id, value as fence from json_each(:fences)) x
where runs.id = x.id and runs.fence = x.fence and runs.worker_id = :worker_id
returning id, tenant_id, cancel_requested;

-- note_runs: remember progress and checkpoints of running attempts
update runs
set progress = coalesce(:progress, progress), message = coalesce(:message, message),
    checkpoint = coalesce(:checkpoint, checkpoint)
where id = :id and fence = :fence and worker_id = :worker_id;

-- keep_logs: remember what a running attempt has logged so far
insert into live_logs (run_id, tenant_id, fence, logs, at)
select r.id, r.tenant_id, :fence, :logs, :now from runs r where r.id = :id
on conflict (run_id) do update set fence = excluded.fence, logs = excluded.logs, at = excluded.at;
