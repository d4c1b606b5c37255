-- forget_dead_workers: remove workers whose lease is over
delete from workers where lease_until <= :now;

-- dead_claims: claims of workers that are gone or do not hold them
select c.worker_id, c.claim_no, c.run_ids, c.standing from claims c
where c.standing = ClaimStanding.NOT_HELD or not exists (select 1 from workers w where w.id = c.worker_id)
order by c.claimed_at limit :limit;

-- overdue_claims: claims that hold a run past its timeout by more than the worker may take to stop it
select worker_id, claim_no, run_ids from claims where deadline < :now - :overdue order by deadline limit :limit;

-- lost_runs: the runs of a claim, and how long they ran under an unbroken lease
select r.id, r.job_id, r.fence, r.attempt, r.lost, r.options, r.cancel_requested, r.home_lane, r.timeout_ms,
    :now - max(min(r.started_at, c.claimed_at), coalesce(w.held_since, 0)) as ran_for
from json_each(:places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
    left join workers w on w.id = r.worker_id
    join claims c on c.worker_id = :worker_id and c.claim_no = :claim_no
where r.worker_id = :worker_id and r.claim_no = :claim_no order by r.id;

-- delete_claims: remove a claim that has no runs left
delete from claims where worker_id = :worker_id and claim_no = :claim_no;

-- count_claimed: how many runs a claim still holds
select count(*) from json_each(:places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
where r.worker_id = :worker_id and r.claim_no = :claim_no;

-- next_deadline: when the next run of a claim is past its timeout
update claims set deadline = (
    select min(max(min(r.started_at, claims.claimed_at), coalesce(w.held_since, 0)) + r.timeout_ms * 1000)
    from json_each(:places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
        left join workers w on w.id = r.worker_id
    where r.worker_id = :worker_id and r.claim_no = :claim_no)
where worker_id = :worker_id and claim_no = :claim_no;

-- forget_cancels: remove requests to stop runs that are not running any more
delete from cancels where not exists (
    select 1 from runs r where r.id = cancels.run_id and r.worker_id = cancels.worker_id);
