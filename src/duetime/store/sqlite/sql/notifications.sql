-- listen_for_good: have events written, whether or not a server is up to read them, from now on
update listening set until = 9223372036854775807 where one = 1;
update notifying set number = :number where one = 1 and number is null;

-- listen_no_more: no subscription and no alert rule needs events any more; readers keep events coming for themselves
update listening set until = :now + :period
where one = 1 and until = 9223372036854775807 and not exists (select 1 from subscriptions)
        and not exists (select 1 from alerts where hears);
update notifying set number = null where one = 1 and not exists (select 1 from subscriptions)
        and not exists (select 1 from alerts where hears);

-- slow_candidates: running runs of jobs that say how long is usual, and how long they have been running
select r.tenant_id, r.id, r.options, :now - r.started_at as ran_for
-- As many numbers as there are ids in the blob.
from claims c cross join json_each('[' || substr(replace(hex(zeroblob(length(c.run_ids) / 16)), '00', ',0'), 2) || ']') x
cross join runs r on r.id = substr(c.run_ids, x.key * 16 + 1, 16)
where c.claimed_at < :now - 1000000 and r.worker_id = c.worker_id and r.claim_no = c.claim_no
    and instr(r.options, cast('"warn_after"' as blob)) > 0;

-- held_slots: how many runs each worker holds
select c.worker_id, count(*) as count
from claims c cross join json_each('[' || substr(replace(hex(zeroblob(length(c.run_ids) / 16)), '00', ',0'), 2) || ']') x
cross join runs r on r.id = substr(c.run_ids, x.key * 16 + 1, 16)
where r.worker_id = c.worker_id and r.claim_no = c.claim_no group by c.worker_id;
