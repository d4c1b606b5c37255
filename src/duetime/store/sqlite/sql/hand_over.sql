-- hand_over_runs: let runs go on without their worker
insert into handovers (run_id, tenant_id, fence, handed_at, deadline)
select r.id, r.tenant_id, r.fence, :now, :now + x.value
from json_each(:waits) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16) where true
on conflict (run_id) do update
set fence = excluded.fence, handed_at = excluded.handed_at, deadline = excluded.deadline;
update runs set claim_no = null, message = 'handed over: its receiver finishes it'
where id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:waits) x);

-- late_handovers: runs whose receiver is late, or whose cancellation was requested
select r.id, r.fence, r.attempt, r.lost, r.options, r.cancel_requested, r.timeout_ms, r.worker_id,
    :now - r.started_at as ran_for
from (
    select * from (
        select h.run_id from handovers h cross join clock_watch c
        -- A step of the clock takes nothing of the time that the receiver has: it begins anew.
        where h.deadline <= :now and (c.stepped_at is null or h.handed_at >= c.stepped_at
            or c.stepped_at + h.deadline - h.handed_at <= :now)
        order by h.deadline limit :limit)
    union
    select c.run_id from cancels c join handovers h on h.run_id = c.run_id
) late
join handovers h on h.run_id = late.run_id
join runs r on r.id = h.run_id and r.fence = h.fence and r.claim_no is null and r.worker_id is not null
order by r.id limit :limit;
