-- register_worker: begin a worker's lease
insert into duetime.workers (id, name, tasks, queues, slots, started_at, lease_until)
values ($1, $2, $3::text[], $4::text[], $5, duetime.now(), duetime.now() + $6::interval)
on conflict (id) do update set lease_until = excluded.lease_until
returning lease_until;

-- renew_lease: extend the lease of a worker that was not reaped
update duetime.workers set lease_until = duetime.now() + $2::interval where id = $1 returning lease_until;

-- free_unlisted: runs of old claims that their worker does not hold wait again, nothing spent
with gone as (
    delete from duetime.claims c
    where c.worker_id = $1 and c.claim_no <> all($3::bigint[]) and c.claimed_at < duetime.now() - $2::interval
    returning c.claim_no, c.run_ids
),
held as materialized (
    select r.id, r.claim_no from duetime.runs r join gone on r.id = any(gone.run_ids) and r.claim_no = gone.claim_no
    where r.worker_id = $1 order by r.id for update of r
)
update duetime.runs r
set worker_id = null, claim_no = null, attempt = attempt - 1, started_at = null, ready_at = duetime.clock()
from held where r.id = held.id and r.worker_id = $1 and r.claim_no = held.claim_no
returning r.id, r.tenant_id, r.cancel_requested;

-- cancels_of_worker: runs that a worker holds and is asked to stop
select c.run_id from duetime.cancels c join duetime.runs r on r.id = c.run_id and r.worker_id = c.worker_id
where c.worker_id = $1 order by c.run_id;

-- leave: end a worker's lease
delete from duetime.workers where id = $1;

-- list_workers: all workers that have neither left nor been reaped
select id, name, tasks, queues, slots, started_at, lease_until from duetime.workers order by started_at, id;
