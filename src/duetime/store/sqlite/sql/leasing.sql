-- declare_tasks: store a worker's declarations of one of its tasks
insert into tasks (tenant_id, name, said, arguments, digest, told_at, seen_at)
values (:tenant_id, :name, :said, :arguments, :digest, :now, :now)
on conflict (coalesce(tenant_id, -1), name) do update set said = excluded.said, arguments = excluded.arguments,
    digest = excluded.digest, told_at = excluded.told_at, seen_at = excluded.seen_at;

-- count_tasks: how many tasks with defaults a tenant has, and how many it may have
select count(*), (select quotas ->> '$.tasks' from tenants where id = :tenant_id)
from tasks where coalesce(tenant_id, -1) = :tenant_id;

-- renew_lease: extend the lease of a worker that was not reaped
update workers set lease_until = :now + :lease, heard_at = :now,
    held_since = case when lease_until > :now then min(held_since, :now) else :now end
where id = :worker_id returning lease_until;

-- unlisted_claims: old claims that their worker does not list
select claim_no, run_ids from claims
where worker_id = :worker_id and claimed_at < :now - :lease and standing = ClaimStanding.CLAIMED
    and claim_no not in (select value from json_each(:open));

-- disown_claims: of claims that the sweep has found, or that were answered, those that their worker does not hold are for the
-- reaper to judge
update claims set standing = ClaimStanding.NOT_HELD
where worker_id = :worker_id and claimed_at < :now - :lease
    and (standing = ClaimStanding.SWEPT or (standing = ClaimStanding.CLAIMED and claim_no <= :answered))
    and claim_no not in (select value from json_each(:open));

-- free_unlisted: runs of a claim that its worker does not hold wait again, nothing spent
update runs
set worker_id = null, claim_no = null, attempt = attempt - 1, started_at = null, ready_at = :now
where id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:places) x)
    and worker_id = :worker_id and claim_no = :claim_no
returning id, tenant_id, cancel_requested;
delete from claims where worker_id = :worker_id and claim_no = :claim_no;

-- runs_of_claims: what some claims of a worker have brought
select run_ids from claims where worker_id = :worker_id and claim_no in (select value from json_each(:claims));

-- unaccounted_runs: of some runs, those that a worker has under some claims
select r.id from json_each(:places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
where r.worker_id = :worker_id and r.claim_no in (select value from json_each(:claims)) order by r.id limit 1000;
