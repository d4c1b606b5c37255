-- look: the first unclaimed runs of each lane that are ready, and unless there are so many, the one that is ready next
select l.value, (
    select json_group_array(json_array(ready_at, lower(hex(id)))) from (
        select * from (
            select ready_at, id from runs
            where lane_id = l.value and ready_at <= :now and worker_id is null order by ready_at, id limit :depth)
        union all
        select * from (
            select ready_at, id from runs
            where lane_id = l.value and ready_at > :now and worker_id is null order by ready_at, id limit 1)
        limit :depth)
    having count(*) > 0)
from json_each(:lane_ids) l;

-- claim: the first ready runs of one lane, all of them in one row (`batches.py`)
select cast(group_concat(id, '') as blob), min(timeout_ms), cast(group_concat(job_id, '') as blob),
    '[' || group_concat(fence + 1) || ']', '[' || group_concat(attempt + 1) || ']', '[' || group_concat(lost) || ']',
    '[' || group_concat(due_at) || ']', '[' || group_concat(ready_at) || ']',
    '[' || group_concat(coalesce(timeout_ms, 'null')) || ']',
    '[' || group_concat(length(args)) || ']', cast(group_concat(args, '') as blob),
    '[' || group_concat(coalesce(length(options), 'null')) || ']', cast(group_concat(options, '') as blob),
    '[' || group_concat(coalesce(length(checkpoint), 'null')) || ']', cast(group_concat(checkpoint, '') as blob)
from (
    select id, job_id, fence, attempt, lost, due_at, ready_at, args, options, timeout_ms, checkpoint
    from runs where lane_id = :lane_id and worker_id is null and ready_at <= :now
        and +tenant_id = (select n.tenant_id from lanes n where n.id = :lane_id)
    order by ready_at, id limit :take);

-- lease_claimed: lease these runs to a worker
update runs
set worker_id = :worker_id, claim_no = :claim_no, fence = fence + 1, attempt = attempt + 1, started_at = :now,
    progress = null, message = null
where id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:places) x);

-- claimed_before: the runs of a claim whose answer was lost
select r.id, r.job_id, r.lane_id, r.fence, r.attempt, r.lost, r.due_at, r.ready_at, r.started_at, r.args, r.options,
    r.timeout_ms, r.checkpoint
from json_each(:places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
where r.worker_id = :worker_id and r.claim_no = :claim_no;

-- alive: a worker that has a lease, and what it is bound to
select tenant_id, queues from workers where id = :worker_id and lease_until > :now;

-- find_claim: the runs of a claim
select run_ids from claims where worker_id = :worker_id and claim_no = :claim_no;

-- keep_claim: store a claim
insert into claims (worker_id, claim_no, claimed_at, deadline, run_ids)
values (:worker_id, :claim_no, :now, :deadline, :run_ids);

-- take_numbers: reserve a number, so that no claim can use it
insert into claims (worker_id, claim_no, claimed_at, run_ids) values (:worker_id, :claim_no, :now, x'')
on conflict (worker_id, claim_no) do nothing;

-- release: undo a claim: its runs wait again
update runs
set worker_id = null, claim_no = null, attempt = attempt - 1, started_at = null, ready_at = :now
where id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:places) x)
    and worker_id = :worker_id and claim_no = :claim_no
returning id, tenant_id, cancel_requested;

-- is_served: whether a worker that is bound to a tenant, and perhaps to queues, may take from a lane
select 1 from lanes where id = :lane_id and tenant_id = :tenant_id
    and (:queues = '[]' or queue in (select value from json_each(:queues)));
