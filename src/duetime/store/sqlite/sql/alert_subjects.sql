-- longest_running: the runs of a tenant that have been running for longest
select r.id as run_id, r.job_id, r.started_at, r.options, l.task, l.queue
from (
    -- As many numbers as there are ids in the blob.
    select o.* from claims c
    cross join json_each('[' || substr(replace(hex(zeroblob(length(c.run_ids) / 16)), '00', ',0'), 2) || ']') x
    cross join runs o on o.id = substr(c.run_ids, x.key * 16 + 1, 16)
    where o.tenant_id = :tenant_id and c.claimed_at < :now - 1000000 and o.worker_id = c.worker_id
        and o.claim_no = c.claim_no
    union all
    select o.* from handovers h cross join runs o on o.id = h.run_id where h.tenant_id = :tenant_id) r
join lanes l on l.id = r.home_lane
order by r.started_at limit :limit;
