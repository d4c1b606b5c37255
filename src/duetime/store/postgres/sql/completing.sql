-- succeed_runs: end runs that succeeded without a word: the short road. Unless the transaction goes on, also give the lanes
-- back that they made room for; the limits that this is left to do for
select accepted, case when freed is not null and not $7::boolean then (duetime.unpark(freed)).busy else freed end
from duetime.succeed_runs($1::uuid[], $2::int, $3::uuid[], $4::int[], $5, $6::bigint[]);

-- end_runs: end runs; failed ones become dead letters too
select duetime.end_runs($1::uuid[], $2::int[], $3, $4::bigint[], $5::smallint[], $6::smallint[], $7::smallint[],
    $8::text[], $9::bytea[], $10::bytea[]);

-- mark_dead: keep what tells the errors of dead letters apart
update duetime.dead_letters d set fingerprint = x.fingerprint
from unnest($1::uuid[], $2::text[]) as x(run_id, fingerprint) where d.run_id = x.run_id;

-- retry_runs: make runs wait again, with a row in history for the attempt; not runs whose cancellation was requested
select duetime.retry_runs($1::uuid[], $2::int[], $3, $4::smallint[], $5::smallint[], $6::text[], $7::bytea[],
    $8::interval[], $9::boolean[], $10::int[]);

-- hold_runs: hold runs of a worker, in the order in which everybody does
select id from duetime.runs where worker_id = $1 and id = any($2::uuid[]) order by id for update;

-- hold_runs_at_hand: the same, but for those that others hold
select id from duetime.runs where worker_id = $1 and id = any($2::uuid[]) order by id for update skip locked;

-- held_in_transactions: those of these runs that others hold
with free as materialized (
    select id from duetime.runs where id = any($1::uuid[]) order by id for update skip locked
)
select id from duetime.runs where id = any($1::uuid[]) and not exists (select 1 from free where free.id = runs.id);

-- hand_back: make claimed runs wait again as if they had not been claimed
with held as materialized (
    select id from duetime.runs where worker_id = $1 and id = any($2::uuid[]) order by id for update
)
update duetime.runs r
set worker_id = null, claim_no = null, attempt = attempt - 1, started_at = null, ready_at = duetime.clock(),
    first_started_at = coalesce(first_started_at, started_at)
from held join unnest($2::uuid[], $3::int[]) as x(id, fence) on x.id = held.id
where r.id = any(array[held.id]) and r.fence = x.fence and r.worker_id = $1
returning r.id, r.tenant_id, r.cancel_requested;

-- note_runs: remember progress, checkpoints and logs of running attempts
with held as materialized (
    select id from duetime.runs where worker_id = $1 and id = any($2::uuid[]) order by id for update
),
said as (
    select x.* from unnest($2::uuid[], $3::int[], $4::real[], $5::text[], $6::bytea[], $7::bytea[])
        as x(id, fence, progress, message, checkpoint, logs)
),
noted as (
    update duetime.runs r
    set progress = coalesce(x.progress, r.progress), message = coalesce(x.message, r.message),
        checkpoint = coalesce(x.checkpoint, r.checkpoint)
    from held join said x on x.id = held.id
    where r.id = any(array[held.id]) and r.fence = x.fence and r.worker_id = $1
    returning r.id, r.tenant_id, r.fence, x.logs
),
logged as (
    insert into duetime.live_logs (run_id, tenant_id, fence, logs, at)
    select id, tenant_id, fence, logs, duetime.now() from noted where logs is not null
    on conflict (run_id) do update set fence = excluded.fence, logs = excluded.logs, at = excluded.at
)
select id from noted;
