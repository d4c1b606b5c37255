-- dead_claims: claims of workers that are gone or do not hold them, locked against other nodes
select c.worker_id, c.claim_no, c.run_ids, c.standing,
    (select p.heard_at from duetime.past_workers p where p.id = c.worker_id) as heard_at
from duetime.claims c
where c.standing = ClaimStanding.NOT_HELD or not exists (select 1 from duetime.workers w where w.id = c.worker_id)
order by c.claimed_at limit :limit for update of c skip locked;

-- overdue_claims: claims that hold a run past its timeout by more than the worker may take to stop it
select c.worker_id, c.claim_no, c.run_ids from duetime.claims c
where c.deadline < duetime.clock() - :overdue::interval
order by c.deadline limit :limit for update of c skip locked;

-- delete_claim: remove a claim that has no runs left
delete from duetime.claims where worker_id = :worker_id and claim_no = :claim_no;

-- count_claimed: how many runs a claim still holds
select count(*) as count from duetime.runs
where id = any(:ids::uuid[]) and worker_id = :worker_id and claim_no = :claim_no;

-- forget_cancels: remove requests to stop runs that are not running any more
delete from duetime.cancels as c where (
    select 1 from duetime.runs r where r.id = c.run_id and r.worker_id = c.worker_id limit 1) is null;
