-- template claimed
r.id as run_id, r.job_id, r.lane_id, r.fence, r.attempt, r.lost, duetime.stamp(r.due_at) as due,
    duetime.stamp(r.ready_at) as ready, duetime.stamp(r.started_at) as started,
    r.args, r.options, r.timeout_ms, r.checkpoint
-- end

-- look: the first unclaimed runs of each lane above its low-water mark, ready or not; the snapshot of the read; and,
-- a while after $4, a number that is above all transactions that have begun
select l.lane, l.ready, l.ids, s.now, s.oldest, s.unborn
from (
    select duetime.now() as now, pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest,
        case when $4::timestamptz is null or duetime.now() >= $4 + interval '1.2 seconds'
            then pg_current_xact_id()::text::bigint end as unborn
    offset 0
) s left join duetime.look($1::int[], $2::timestamptz[], $3) l on true;

-- claim: lease ready runs of each lane to a worker, without touching any index
select {claimed}
from duetime.claim($1::int[], $2::int[], $3::timestamptz[], $4, $5) r;

-- claim_announced: lease announced runs of lanes without limits to a worker
select {claimed}
from duetime.claim_announced($1::uuid[], $2::int[], $3, $4) r;

-- claimed_before: the runs of a claim whose answer was lost
select {claimed}
from duetime.claims c join duetime.workers w on w.id = c.worker_id and w.lease_until > duetime.now()
join duetime.runs r on r.id = any(c.run_ids) and r.worker_id = c.worker_id and r.claim_no = c.claim_no
where c.worker_id = $1 and c.claim_no = $2;

-- take_numbers: reserve these numbers, so that no claim can use them
insert into duetime.claims (worker_id, claim_no, claimed_at, run_ids)
select $1, n.claim_no, duetime.now(), '{}' from unnest($2::bigint[]) as n(claim_no)
on conflict (worker_id, claim_no) do nothing;

-- release: undo claims: their runs wait again
with held as materialized (
    select r.id from duetime.runs r
    where r.worker_id = $1 and r.claim_no = any($2::bigint[]) and r.id = any(array(
        select unnest(c.run_ids) from duetime.claims c where c.worker_id = $1 and c.claim_no = any($2::bigint[])))
    order by r.id for update
)
update duetime.runs r
set worker_id = null, claim_no = null, attempt = attempt - 1, started_at = null, ready_at = duetime.clock()
from held where r.id = any(array[held.id]) and r.worker_id = $1 and r.claim_no = any($2::bigint[])
returning r.id, r.tenant_id, r.cancel_requested;

-- claim_many: lease ready runs of each lane, and chosen runs, and deal them to workers in order
select r.worker_id, {claimed}
from duetime.claim_many($1::int[], $2::int[], $3::timestamptz[], $4::uuid[], $5::uuid[], $6::bigint[], $7::int[]) r;

-- claims_before: the runs of claims whose answers were lost
select r.worker_id, {claimed}
from unnest($1::uuid[], $2::bigint[]) as s(worker_id, claim_no) cross join lateral (
    select o.* from duetime.claims o where o.worker_id = s.worker_id and o.claim_no = s.claim_no offset 0) c
join duetime.workers w on w.id = c.worker_id and w.lease_until > duetime.now()
join duetime.runs r on r.id = any(c.run_ids) and r.worker_id = c.worker_id and r.claim_no = c.claim_no;
