-- insert_once: store one-off jobs; those due within the look-ahead go straight to their runs
with job as materialized (
    select j.*, greatest(coalesce(j.at, duetime.now() + coalesce(j.delay, interval '0')), duetime.now()) as due_at
    from unnest(:id::uuid[], :run_id::uuid[], :lane_id::int[], :task::text[], :queue::text[], :tier::smallint[],
                :at::timestamptz[], :delay::interval[], :args::bytea[], :options::bytea[], :timeout_ms::int[],
                :schedule::bytea[], :version::int[])
        as j(id, run_id, lane_id, task, queue, tier, at, delay, args, options, timeout_ms, schedule, version)
),
soon as (
    insert into duetime.runs (id, job_id, tenant_id, lane_id, home_lane, due_at, ready_at, args, options, timeout_ms)
    select run_id, id, :tenant_id::int, lane_id, lane_id, due_at, greatest(due_at, duetime.clock()), args, options, timeout_ms
    from job where due_at <= duetime.now() + :look_ahead::interval
        and (select duetime.use_lanes(:lanes::int[], :nonces::bigint[]))
),
later as (
    insert into duetime.jobs (id, tenant_id, task, queue, tier, schedule, recurring, args, options, timeout_ms, version,
                              created_at)
    select id, :tenant_id::int, task, queue, tier, schedule, false, args, options, timeout_ms, version, duetime.now()
    from job where due_at > duetime.now() + :look_ahead::interval
),
cursor_of as (
    insert into duetime.cursors (job_id, scan_at, next_fire_at)
    select id, greatest(due_at - :look_ahead::interval, duetime.clock()), due_at
    from job where due_at > duetime.now() + :look_ahead::interval
),
appended as (
    insert into duetime.events (at, kind, tenant_id, ids)
    select duetime.now(), EventKind.SUBMITTED, :tenant_id::int, :id::uuid[] from duetime.listening l
    where l.one and l.until > duetime.now()
)
select id, due_at, due_at <= duetime.now() + :look_ahead::interval as soon from job
where (
    select t.state = TenantState.ACTIVE or duetime.refuse_submission(t.state) from duetime.tenants t
    where t.id = :submitter::int) is not false;

-- insert_ready: store one-off jobs that are all due now, in lanes that are awake: the fast path to their runs
with stored as (
    insert into duetime.runs (id, job_id, tenant_id, lane_id, home_lane, due_at, ready_at, args, options, timeout_ms)
    select j.run_id, j.id, $1, j.lane_id, j.lane_id, duetime.now(), duetime.clock(), j.args, j.options, j.timeout_ms
    from unnest($2::uuid[], $3::uuid[], $4::int[], $5::bytea[], $6::bytea[], $7::int[])
        as j(id, run_id, lane_id, args, options, timeout_ms)
    where (select duetime.use_lanes($8::int[], $9::bigint[])) and (
        select t.state = TenantState.ACTIVE or duetime.refuse_submission(t.state) from duetime.tenants t
        where t.id = $10::int) is not false
),
appended as (
    insert into duetime.events (at, kind, tenant_id, ids)
    select duetime.now(), EventKind.SUBMITTED, $1, $2::uuid[] from duetime.listening l where l.one and l.until > duetime.now()
)
select duetime.now();

-- insert_recurring: store one recurring job and its cursor
with job as (
    insert into duetime.jobs (id, tenant_id, task, queue, tier, schedule, recurring, args, options, timeout_ms, version,
                              created_at)
    values (:id, :tenant_id, :task, :queue, :tier, :schedule, true, :args, :options, :timeout_ms, :version,
            duetime.now())
),
appended as (
    insert into duetime.events (at, kind, tenant_id, ids)
    select duetime.now(), EventKind.SUBMITTED, :tenant_id::int, array[:id::uuid] from duetime.listening l
    where l.one and l.until > duetime.now()
)
insert into duetime.cursors (job_id, scan_at, next_fire_at, exact)
values (:id, greatest(:scan_at, duetime.clock()), :next_fire_at, :exact);

-- clock: the database's current time
select duetime.clock();

-- try_lock_keys: lock each key for the transaction without waiting; returns the first that another transaction holds
select k.kind, k.key from unnest(:kinds::text[], :keys::text[]) as k(kind, key)
where not pg_try_advisory_xact_lock(hashtextextended('duetime ' || k.kind || ' ' || :tenant_id::int || ' ' || k.key, 0))
limit 1;

-- find_keys: what these keys lead to, and those of the queues that have a stream
select w.kind, w.key, k.job_id, k.run_id, k.fingerprint, k.next_run, s.queue
from unnest(:kind::text[], :key::text[], :queue::text[]) as w(kind, key, queue)
left join duetime.keys k on k.tenant_id = :tenant_id and k.kind = w.kind::"char" and k.key = w.key
left join duetime.stream_queues s on s.tenant_id = :tenant_id and s.queue = w.queue and not s.retired
where k.key is not null or s.queue is not null;

-- known_keys: which of these keys lead to an earlier request, or to a job that has not ended
select k.kind::text, k.key
from duetime.keys k
join unnest(:kind::text[], :key::text[]) as w(kind, key) on k.kind = w.kind::"char" and k.key = w.key
where k.tenant_id = :tenant_id and (k.kind <> 'k'
    or (select 1 from duetime.jobs j where j.id = k.job_id and j.state < JobState.ENDED) is not null
    or (select 1 from duetime.runs r where r.tenant_id = k.tenant_id and r.job_id = k.job_id limit 1) is not null);

-- spend_ids: spend the ids of runs; returns those that were not spent before
insert into duetime.spent (run_id) select w.run_id from unnest(:run_id::uuid[]) as w(run_id) order by 1
on conflict do nothing returning run_id;

-- put_keys: store what keys lead to
insert into duetime.keys (tenant_id, kind, key, job_id, run_id, fingerprint, next_run, created_at)
select :tenant_id, k.kind::"char", k.key, k.job_id, k.run_id, k.fingerprint, k.next_run, duetime.now()
from unnest(:kind::text[], :key::text[], :job_id::uuid[], :run_id::uuid[], :fingerprint::bytea[],
            :next_run::timestamptz[])
    as k(kind, key, job_id, run_id, fingerprint, next_run)
on conflict (tenant_id, kind, key) do update set job_id = excluded.job_id, run_id = excluded.run_id,
    fingerprint = excluded.fingerprint, next_run = excluded.next_run, created_at = excluded.created_at;

-- withdraw_runs: withdraw runs that no worker has ever held; this is not an end state
with held as materialized (
    select id from duetime.runs where tenant_id = :tenant_id and job_id = :job_id and fence = 0 and not manual
    order by uuid_send(id) for update
)
delete from duetime.runs r using held where r.id = any(array[held.id]) returning r.id, r.due_at, r.home_lane;

-- withdraw_unstarted: withdraw runs that have not started and that no worker holds; this is not an end state. An attempt
-- that was made has a row in history, even if it spent nothing
with held as materialized (
    select r.id from duetime.runs r
    where r.tenant_id = :tenant_id and r.job_id = :job_id and r.worker_id is null and r.attempt = 0 and r.lost = 0
        and not r.manual and (r.fence = 0 or r.checkpoint is null and (
            select 1 from duetime.history h where h.tenant_id = r.tenant_id and h.run_id = r.id limit 1) is null)
    order by uuid_send(r.id) for update
)
delete from duetime.runs r using held where r.id = any(array[held.id]) returning r.id, r.due_at, r.home_lane, r.fence;

-- restamp_runs: give locked runs that stay a new `ready_at`, above the mark of any claim that skipped them
update duetime.runs set ready_at = greatest(ready_at, duetime.clock())
where tenant_id = :tenant_id and job_id = :job_id and worker_id is null;

-- put_labels: store the labels of jobs
insert into duetime.labels (tenant_id, kind, value, job_id)
select :tenant_id, l.kind::"char", l.value, l.job_id
from unnest(:kind::text[], :value::text[], :job_id::uuid[]) as l(kind, value, job_id)
on conflict do nothing;

-- put_payload_refs: store which payloads jobs refer to
insert into duetime.payload_refs (payload_id, job_id, tenant_id)
select r.payload_id, r.job_id, :tenant_id
from unnest(:payload_id::uuid[], :job_id::uuid[]) as r(payload_id, job_id)
on conflict do nothing;
