-- longest_running: the runs of a tenant that have been running for longest
select r.id as run_id, r.job_id, r.started_at, r.options, l.task, l.queue
from (
    select o.* from duetime.claims c cross join lateral (
        select a.* from duetime.runs a
        where a.id = any(c.run_ids) and a.worker_id = c.worker_id and a.claim_no = c.claim_no offset 0) o
    where o.tenant_id = :tenant_id and c.claimed_at < duetime.now() - interval '1 second'
    union all
    select o.* from duetime.handovers h cross join lateral (select a.* from duetime.runs a where a.id = h.run_id offset 0) o
    where h.tenant_id = :tenant_id) r
join duetime.lanes l on l.id = r.home_lane
order by r.started_at limit :limit;
