-- succeed_runs: end runs that succeeded without a word: the short road
with done as (
    delete from duetime.runs r using unnest($1::uuid[], $2::int[]) as x(id, fence)
    where r.id = x.id and r.fence = x.fence and r.worker_id = $3
    returning r.*
),
closed as (
    delete from duetime.claims where worker_id = $3 and claim_no = any($4::bigint[])
),
kept as (
    insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
        due_at, ready_at, started_at, finished_at, worker_id, timeout_ms, args, options)
    select id, job_id, tenant_id, home_lane, fence, attempt, lost, 1, 4, due_at, ready_at, started_at, duetime.now(),
        worker_id, timeout_ms, args, options
    from done
)
select array_agg(id) from done;

-- end_runs: end runs; failed ones become dead letters too
with done as (
    delete from duetime.runs r
    using unnest($1::uuid[], $2::int[], $5::smallint[], $6::smallint[], $7::smallint[], $8::text[], $9::bytea[],
                 $10::bytea[])
        as x(id, fence, attempt_state, end_state, failure, error, result, logs)
    where r.id = x.id and r.fence = x.fence and r.worker_id = $3
    returning r.*, x.attempt_state, x.end_state, x.failure, x.error, x.result, x.logs
),
closed as (
    delete from duetime.claims where worker_id = $3 and claim_no = any($4::bigint[])
),
kept as (
    insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
        failure, due_at, ready_at, started_at, finished_at, worker_id, timeout_ms, args, options, result, logs, error)
    select id, job_id, tenant_id, home_lane, fence, attempt - (attempt_state = 3)::int, lost + (attempt_state = 3)::int,
        attempt_state, end_state, failure, due_at, ready_at, started_at, duetime.now(), worker_id, timeout_ms, args,
        options, result, logs, error
    from done
),
dead as (
    insert into duetime.dead_letters (run_id, job_id, tenant_id, lane_id, attempt, lost, failure, error, due_at,
        died_at, timeout_ms, args, options)
    select id, job_id, tenant_id, home_lane, attempt - (attempt_state = 3)::int, lost + (attempt_state = 3)::int,
        failure, error, due_at, duetime.now(), timeout_ms, args, options
    from done where end_state = 5
)
select array_agg(id) from done;

-- retry_runs: make runs wait again, with a row in history for the attempt; not those that shall be cancelled
with again as (
    update duetime.runs r
    set worker_id = null, claim_no = null, ready_at = duetime.clock() + x.delay,
        attempt = r.attempt - (not x.spent)::int, lost = r.lost + (x.attempt_state = 3)::int,
        lane_id = coalesce(x.lane_id, r.lane_id)
    from unnest($1::uuid[], $2::int[], $5::smallint[], $6::smallint[], $7::text[], $8::bytea[], $9::interval[],
                $10::boolean[], $11::int[])
        as x(id, fence, attempt_state, failure, error, logs, delay, spent, lane_id)
    where r.id = x.id and r.fence = x.fence and r.worker_id = $3 and not r.cancel_requested
    returning r.*, x.attempt_state, x.failure, x.error, x.logs, x.spent
),
closed as (
    delete from duetime.claims where worker_id = $3 and claim_no = any($4::bigint[])
),
kept as (
    insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, failure,
        due_at, ready_at, started_at, finished_at, worker_id, timeout_ms, logs, error)
    select id, job_id, tenant_id, home_lane, fence, attempt + (not spent and attempt_state <> 3)::int, lost,
        attempt_state, failure, due_at, null, started_at, duetime.now(), $3, timeout_ms, logs, error
    from again
)
select array_agg(id) from again;

-- hand_back: make claimed runs wait again as if they had not been claimed
update duetime.runs r
set worker_id = null, claim_no = null, attempt = attempt - 1, started_at = null, ready_at = duetime.clock()
from unnest($2::uuid[], $3::int[]) as x(id, fence)
where r.id = x.id and r.fence = x.fence and r.worker_id = $1;

-- note_runs: remember progress and checkpoints of running attempts
update duetime.runs r
set progress = coalesce(x.progress, r.progress), message = coalesce(x.message, r.message),
    checkpoint = coalesce(x.checkpoint, r.checkpoint)
from unnest($2::uuid[], $3::int[], $4::real[], $5::text[], $6::bytea[]) as x(id, fence, progress, message, checkpoint)
where r.id = x.id and r.fence = x.fence and r.worker_id = $1
returning r.id;
