-- lost_runs: the runs of a claim, and how long they ran under an unbroken lease
select r.id, r.job_id, r.fence, r.attempt, r.lost, r.options, r.cancel_requested, r.home_lane, r.started_at, r.timeout_ms,
    :now - max(min(r.started_at, c.claimed_at), coalesce(w.held_since, 0)) as ran_for
from json_each(:ids_places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
    left join workers w on w.id = r.worker_id
    join claims c on c.worker_id = :worker_id and c.claim_no = :claim_no
where r.worker_id = :worker_id and r.claim_no = :claim_no order by r.id;

-- next_deadline: when the next run of a claim is past its timeout
update claims set deadline = (
    select min(max(min(r.started_at, claims.claimed_at), coalesce(w.held_since, 0)) + r.timeout_ms * 1000)
    from json_each(:ids_places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
        left join workers w on w.id = r.worker_id
    where r.worker_id = :worker_id and r.claim_no = :claim_no)
where worker_id = :worker_id and claim_no = :claim_no;
