-- silent_sessions: duetime's sessions that wait for their client inside a transaction, and since when
select pid, state_change, query from pg_stat_activity
where datname = current_database() and usename = session_user and starts_with(query, $1)
    and state <> 'idle' and wait_event = 'ClientRead';

-- end_abandoned: end such a session and release its locks, unless its client has sent something since
select pg_terminate_backend(pid) from pg_stat_activity
where pid = $1 and state_change = $2 and state <> 'idle' and wait_event = 'ClientRead';

-- forget_dead_workers: remove workers whose lease is over, except for one that is renewing it
delete from duetime.workers where id in (
    select w.id from duetime.workers w where w.lease_until <= duetime.clock() order by w.id for update skip locked);

-- dead_claims: claims of workers that are gone or do not hold them, locked against other nodes
select c.worker_id, c.claim_no, c.run_ids, c.standing from duetime.claims c
where c.standing = ClaimStanding.NOT_HELD or not exists (select 1 from duetime.workers w where w.id = c.worker_id)
order by c.claimed_at limit $1 for update of c skip locked;

-- overdue_claims: claims that hold a run past its timeout by more than the worker may take to stop it
select c.worker_id, c.claim_no, c.run_ids from duetime.claims c
where c.deadline < duetime.clock() - $2::interval
order by c.deadline limit $1 for update of c skip locked;

-- lost_runs: the runs of a claim, locked, and how long they ran under an unbroken lease; not those being completed
select r.id, r.job_id, r.fence, r.attempt, r.lost, r.options, r.cancel_requested, r.home_lane, r.started_at, r.timeout_ms,
    duetime.clock() - greatest(least(r.started_at, c.claimed_at), w.held_since) as ran_for
from duetime.runs r left join duetime.workers w on w.id = r.worker_id
left join duetime.claims c on c.worker_id = r.worker_id and c.claim_no = r.claim_no
where r.id = any($1::uuid[]) and r.worker_id = $2 and r.claim_no = $3
order by r.id for update of r skip locked;

-- delete_claims: remove claims that have no runs left
delete from duetime.claims c using unnest($1::uuid[], $2::bigint[]) as x(worker_id, claim_no)
where c.worker_id = any(array[x.worker_id]) and c.claim_no = any(array[x.claim_no]);

-- count_claimed: how many runs a claim still holds
select count(*) from duetime.runs where id = any($1::uuid[]) and worker_id = $2 and claim_no = $3;

-- next_deadline: when the next run of a claim is past its timeout
update duetime.claims c set deadline = (
    select min(greatest(least(r.started_at, c.claimed_at), w.held_since) + r.timeout_ms * interval '1 millisecond')
    from duetime.runs r left join duetime.workers w on w.id = r.worker_id
    where r.id = any(c.run_ids) and r.worker_id = c.worker_id and r.claim_no = c.claim_no)
where c.worker_id = $1 and c.claim_no = $2;

-- forget_cancels: remove requests to stop runs that are not running any more
delete from duetime.cancels c where (
    select 1 from duetime.runs r where r.id = c.run_id and r.worker_id = c.worker_id limit 1) is null;
