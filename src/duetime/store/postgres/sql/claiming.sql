-- look: the first unclaimed runs of each lane above its low-water mark, ready or not; and the snapshot it was seen in
select l.lane, seen.ready, seen.ids,
    (select duetime.clock()), (select pg_snapshot_xmin(pg_current_snapshot())::text::bigint),
    (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
from unnest($1::int[], $2::timestamptz[]) as l(lane, mark)
cross join lateral (
    select array_agg(r.ready_at) as ready, array_agg(r.id) as ids from (
        select r.ready_at, r.id from duetime.runs r
        where r.lane_id = l.lane and r.ready_at >= l.mark and r.worker_id is null
        order by r.ready_at, r.id limit $3
    ) r
) seen;

-- claim: lease ready runs of each lane to a worker, without touching any index
with alive as materialized (
    select 1 from duetime.workers where id = $4 and lease_until > duetime.now()
),
picked as materialized (
    select r.place from alive, unnest($1::int[], $2::int[], $3::timestamptz[]) as l(lane, take, mark)
    cross join lateral (
        select ctid as place from duetime.runs r
        where r.lane_id = l.lane and r.ready_at >= l.mark and r.ready_at <= duetime.now() and r.worker_id is null
        order by r.ready_at, r.id limit l.take for update skip locked
    ) r
),
taken as (
    update duetime.runs
    set worker_id = $4, claim_no = $5, fence = fence + 1, attempt = attempt + 1, started_at = duetime.now(),
        progress = null, message = null
    where ctid = any(array(select place from picked))
    returning id, job_id, lane_id, fence, attempt, lost, due_at, ready_at, started_at, args, options, timeout_ms,
        checkpoint
),
noted as (
    insert into duetime.claims (worker_id, claim_no, claimed_at, deadline, run_ids)
    select $4, $5, duetime.now(), min(started_at + timeout_ms * interval '1 millisecond'), array_agg(id)
    from taken having count(*) > 0
)
select taken.*, (select pg_snapshot_xmin(pg_current_snapshot())::text::bigint),
    (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
from taken;

-- claimed_before: the runs of a claim whose answer was lost
select r.id, r.job_id, r.lane_id, r.fence, r.attempt, r.lost, r.due_at, r.ready_at, r.started_at, r.args, r.options,
    r.timeout_ms, r.checkpoint
from duetime.claims c join duetime.runs r on r.id = any(c.run_ids) and r.worker_id = c.worker_id
    and r.claim_no = c.claim_no
where c.worker_id = $1 and c.claim_no = $2;
