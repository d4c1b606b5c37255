-- hand_over_runs: let runs continue without their worker; not runs whose cancellation was requested
select duetime.hand_over_runs($1::uuid[], $2::int[], $3, $4::interval[]);

-- running_run: an attempt under way, held: in the hands of its worker, or of its receiver
select id, fence, attempt, lost, options, cancel_requested, timeout_ms, worker_id, duetime.clock() - started_at as ran_for
from duetime.runs where id = $1 and fence = $2 and worker_id is not null for update;

-- late_handovers: runs whose receiver is late, or whose cancellation was requested; locked against other nodes
select r.id, r.fence, r.attempt, r.lost, r.options, r.cancel_requested, r.timeout_ms, r.worker_id,
    duetime.clock() - r.started_at as ran_for
from duetime.runs r join duetime.handovers h on h.run_id = any(array[r.id]) and h.fence = r.fence
where r.id = any(array(
        (select h.run_id from duetime.handovers h cross join duetime.clock_watch c
        -- A step of the clock takes nothing of the time that the receiver has: it begins anew.
        where h.deadline <= duetime.clock() and (c.stepped_at is null or h.handed_at >= c.stepped_at
            or c.stepped_at + (h.deadline - h.handed_at) <= duetime.clock())
        order by h.deadline limit $1)
        union
        select c.run_id from duetime.cancels c join duetime.handovers h on h.run_id = c.run_id))
    and r.claim_no is null and r.worker_id is not null
order by r.id limit $1 for update of r skip locked;

-- forget_handovers: remove the deadlines of attempts that are over
delete from duetime.handovers where run_id = any($1::uuid[]);
