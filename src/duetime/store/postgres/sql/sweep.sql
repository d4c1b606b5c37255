-- pages_of_runs: how many pages the table of runs has
select pg_relation_size('duetime.runs') / current_setting('block_size')::bigint;

-- strays: the running runs on these pages that no claim and no handover lists, and the waiting ones that have expired
select id as run_id, fence, worker_id, claim_no from duetime.stray_runs($1, $2, $3);

-- hold_strays: hold strays, to see whether they are as they were; not those being completed
select id as run_id, fence, worker_id, claim_no from duetime.runs where id = any($1::uuid[]) order by id for update skip locked;

-- list_strays: list strays in claims under the numbers that they have, where those are free
insert into duetime.claims (worker_id, claim_no, claimed_at, deadline, run_ids, standing)
select r.worker_id, r.claim_no, duetime.clock(),
    min(least(r.started_at, duetime.clock()) + r.timeout_ms * interval '1 millisecond'), array_agg(r.id),
    ClaimStanding.SWEPT
from duetime.runs r where r.id = any($1::uuid[]) and r.claim_no is not null group by r.worker_id, r.claim_no
on conflict (worker_id, claim_no) do nothing
returning run_ids;

-- set_apart: list runs of a worker in a claim of their own, which that worker does not hold
with moved as (
    update duetime.runs r set claim_no = $3 where r.id = any($2::uuid[]) and r.worker_id = $1 and r.claim_no is not null
    returning r.id, r.started_at, r.timeout_ms
)
insert into duetime.claims as c (worker_id, claim_no, claimed_at, run_ids, standing)
select $1, $3, duetime.clock(), array_agg(m.id), ClaimStanding.NOT_HELD from moved m having count(*) > 0
on conflict (worker_id, claim_no) do update set run_ids = c.run_ids || excluded.run_ids;

-- list_stray_handovers: strays that were handed over have the time that is left of their timeout, or none
insert into duetime.handovers (run_id, tenant_id, fence, handed_at, deadline)
select r.id, r.tenant_id, r.fence, m.now,
    greatest(m.now, least(r.started_at, m.now) + r.timeout_ms * interval '1 millisecond')
from duetime.runs r cross join (select duetime.clock() as now offset 0) m
where r.id = any($1::uuid[]) and r.claim_no is null
on conflict (run_id) do update
set fence = excluded.fence, handed_at = excluded.handed_at, deadline = excluded.deadline;

-- late_runs: waiting runs as a claim would find them now, held; not those that others hold
select id as run_id, job_id, lane_id, fence + 1 as fence, attempt + 1 as attempt, lost, duetime.stamp(due_at) as due,
    duetime.stamp(ready_at) as ready, duetime.stamp(duetime.now()) as started, args, options, timeout_ms, checkpoint
from duetime.runs where id = any($1::uuid[]) and worker_id is null order by id for update skip locked;

-- take_late: hold runs that are about to end without a start
update duetime.runs set worker_id = $2, fence = fence + 1, attempt = attempt + 1, started_at = duetime.now()
where id = any($1::uuid[]);
