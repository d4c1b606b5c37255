-- silent_sessions: duetime's sessions that wait for their client inside a transaction, and since when
select pid, state_change, query from pg_stat_activity
where datname = current_database() and usename = session_user and starts_with(query, $1)
    and state <> 'idle' and wait_event = 'ClientRead';

-- end_abandoned: end such a session and release its locks, unless its client has sent something since
select pg_terminate_backend(pid) from pg_stat_activity
where pid = $1 and state_change = $2 and state <> 'idle' and wait_event = 'ClientRead';

-- lost_runs: the runs of a claim, locked, and how long they ran under an unbroken lease; not those being completed
select r.id, r.job_id, r.fence, r.attempt, r.lost, r.options, r.cancel_requested, r.home_lane, r.started_at, r.timeout_ms,
    duetime.clock() - greatest(least(r.started_at, c.claimed_at), w.held_since) as ran_for
from duetime.runs r left join duetime.workers w on w.id = r.worker_id
left join duetime.claims c on c.worker_id = r.worker_id and c.claim_no = r.claim_no
where r.id = any(:ids::uuid[]) and r.worker_id = :worker_id and r.claim_no = :claim_no
order by r.id for update of r skip locked;

-- next_deadline: when the next run of a claim is past its timeout
update duetime.claims c set deadline = (
    select min(greatest(least(r.started_at, c.claimed_at), w.held_since) + r.timeout_ms * interval '1 millisecond')
    from duetime.runs r left join duetime.workers w on w.id = r.worker_id
    where r.id = any(c.run_ids) and r.worker_id = c.worker_id and r.claim_no = c.claim_no)
where c.worker_id = :worker_id and c.claim_no = :claim_no;
