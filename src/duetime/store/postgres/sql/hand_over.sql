-- hand_over_runs: let runs continue without their worker; not runs whose cancellation was requested
select duetime.hand_over_runs($1::uuid[], $2::int[], $3, $4::interval[]);

-- late_handovers: runs whose receiver is late, or whose cancellation was requested; locked against other nodes
select r.id, r.fence, r.attempt, r.lost, r.options, r.cancel_requested, r.timeout_ms, r.worker_id,
    duetime.clock() - r.started_at as ran_for
from duetime.runs r join duetime.handovers h on h.run_id = any(array[r.id]) and h.fence = r.fence
where r.id = any(array(
        (select h.run_id from duetime.handovers h cross join duetime.clock_watch c
        -- A step of the clock takes nothing of the time that the receiver has: it begins anew.
        where h.deadline <= duetime.clock() and (c.stepped_at is null or h.handed_at >= c.stepped_at
            or c.stepped_at + (h.deadline - h.handed_at) <= duetime.clock())
        order by h.deadline limit :limit)
        union
        select c.run_id from duetime.cancels c join duetime.handovers h on h.run_id = c.run_id))
    and r.claim_no is null and r.worker_id is not null
order by r.id limit :limit for update of r skip locked;
