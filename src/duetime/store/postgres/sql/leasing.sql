-- declare_tasks: store a worker's declarations of its tasks
insert into duetime.tasks (tenant_id, name, said, arguments, digest, told_at, seen_at)
select $1, t.name, t.said, t.arguments, t.digest, duetime.now(), duetime.now()
from unnest($2::text[], $3::bytea[], $4::bytea[], $5::text[]) as t(name, said, arguments, digest)
on conflict (coalesce(tenant_id, -1), name) do update set said = excluded.said, arguments = excluded.arguments,
    digest = excluded.digest, told_at = excluded.told_at, seen_at = excluded.seen_at;

-- free_unlisted: runs of old claims that their worker does not hold wait again, nothing spent. What a transaction holds is
-- passed over, and its claim stays until the next heartbeat
with unlisted as materialized (
    select c.claim_no, c.run_ids from duetime.claims c
    where c.worker_id = $1 and c.claim_no <> all($3::bigint[]) and c.claimed_at < duetime.now() - $2::interval
        and c.standing = ClaimStanding.CLAIMED
),
held as materialized (
    select r.id, r.claim_no from duetime.runs r
    where r.id = any(array(select unnest(u.run_ids) from unlisted u)) and r.worker_id = $1
        and r.claim_no = any(array(select u.claim_no from unlisted u))
    order by r.id for update skip locked
),
passed_over as materialized (
    select r.claim_no from duetime.runs r
    where r.id = any(array(select unnest(u.run_ids) from unlisted u)) and r.worker_id = $1
        and r.claim_no = any(array(select u.claim_no from unlisted u))
        and not exists (select 1 from held where held.id = r.id)
),
gone as (
    delete from duetime.claims c
    where c.worker_id = $1 and c.claim_no = any(array(select u.claim_no from unlisted u))
        and c.claim_no <> all(array(select p.claim_no from passed_over p))
)
update duetime.runs r
set worker_id = null, claim_no = null, attempt = attempt - 1, started_at = null, ready_at = duetime.clock()
from held where r.id = any(array[held.id]) and r.worker_id = $1 and r.claim_no = held.claim_no
returning r.id, r.tenant_id, r.cancel_requested;

-- disown_claims: of claims that the sweep has found, or that were answered, those that their worker does not hold are for the
-- reaper to judge
update duetime.claims c set standing = ClaimStanding.NOT_HELD
where c.worker_id = $1 and c.claim_no <> all($3::bigint[]) and c.claimed_at < duetime.now() - $2::interval
    and (c.standing = ClaimStanding.SWEPT or (c.standing = ClaimStanding.CLAIMED and c.claim_no <= $4::bigint));

-- unaccounted_runs: runs under some claims of a worker, other than those that it holds
select r.id from duetime.runs r
where r.id = any(array(
        select unnest(c.run_ids) from duetime.claims c where c.worker_id = $1 and c.claim_no = any($2::bigint[])))
    and r.worker_id = $1 and r.claim_no = any($2::bigint[])
    and not exists (select 1 from unnest($3::uuid[]) as h(id) where h.id = r.id)
order by r.id limit 1000;

-- renew_leases: extend the leases of workers that were not reaped, and tell what is to be known of each
with renewed as (
    update duetime.workers w set lease_until = duetime.now() + $2::interval, heard_at = duetime.now(),
        held_since = least(duetime.now(), case when w.lease_until > duetime.now() then w.held_since end)
    from (select id from duetime.workers where id = any($1::uuid[]) order by id for update) o
    where w.id = o.id
    returning w.id, w.lease_until
)
select id, lease_until,
    array(
        select c.run_id from duetime.cancels c join duetime.runs r on r.id = any(array[c.run_id]) and r.worker_id = c.worker_id
        where c.worker_id = renewed.id order by c.run_id),
    (
        select 1 from duetime.claims c
        where c.worker_id = renewed.id and c.claimed_at < duetime.now() - $2::interval and c.standing < ClaimStanding.NOT_HELD
            and not exists (
                select 1 from unnest($3::uuid[], $4::bigint[]) as o(worker_id, claim_no)
                where o.worker_id = c.worker_id and o.claim_no = c.claim_no)
        limit 1) is not null
from renewed;

-- take_back_registration: remove a worker that was refused after its row was written
delete from duetime.workers where id = :worker_id;
