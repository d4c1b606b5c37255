-- cancel_waiting: end runs that wait
with done as (
    delete from duetime.runs
    where tenant_id is not distinct from :tenant_id and id = any(:ids::uuid[]) and worker_id is null returning *
),
kept as (
    insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
        failure, due_at, ready_at, first_started_at, finished_at, timeout_ms, args, options, error)
    select id, job_id, tenant_id, home_lane, fence, attempt, lost, AttemptState.CANCELLED, RunState.CANCELLED,
        FailureClass.CANCELLED, due_at, ready_at, first_started_at, duetime.now(), timeout_ms, args, options, :error
    from done
)
insert into duetime.events (at, kind, tenant_id, ids)
select duetime.now(), EventKind.CANCELLED, :tenant_id, array_agg(id) from done
where (select l.until > duetime.now() from duetime.listening l where l.one) having count(*) > 0;

-- ask_to_stop: ask the workers of running runs to stop them
with asked as (
    update duetime.runs set cancel_requested = true
    where tenant_id is not distinct from :tenant_id and id = any(:ids::uuid[]) and worker_id is not null
    returning id, worker_id
)
insert into duetime.cancels (worker_id, run_id, requested_at, replaced)
select worker_id, id, duetime.now(), :replaced::boolean from asked
on conflict do nothing;

-- lock_cursor: hold a cursor against firing
select 1 from duetime.cursors where job_id = :job_id for update;

-- hold_cursors: hold cursors against firing
select job_id from duetime.cursors where job_id = any(:ids::uuid[]) order by job_id for update;

-- lock_runs: hold runs against completion
select id from duetime.runs where tenant_id is not distinct from :tenant_id and id = any(:ids::uuid[])
-- by bytes, or the index of ids might be read whole for its order
order by uuid_send(id) for update;

-- hold_against_pauses: hold the jobs of runs that wait again unstarted; returns one that another transaction holds
with returned as materialized (
    select distinct r.job_id from duetime.runs r
    where r.id = any(:ids::uuid[]) and r.attempt = 0 and r.lost = 0 and not r.manual
),
held as materialized (
    select j.id from duetime.jobs j where j.id = any(array(select u.job_id from returned u)) for share skip locked
)
select j.id from duetime.jobs j
where j.id = any(array(select u.job_id from returned u)) and j.id <> all(array(select h.id from held h))
    and j.version > 0 -- always; but no index has it, so that the one of tenants is not read for the rest
limit 1;

-- hold_paused_cursors: hold cursors against all changes; returns one that another transaction holds
with held as materialized (
    select c.job_id from duetime.cursors c where c.job_id = any(:ids::uuid[]) for update skip locked
)
select c.job_id from duetime.cursors c
where c.job_id = any(:ids::uuid[]) and c.job_id <> all(array(select h.job_id from held h)) limit 1;
