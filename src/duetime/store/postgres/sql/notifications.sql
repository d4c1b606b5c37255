-- lock_notifying: one after the other, so that what follows sees what the one before has done
select 1 from duetime.notifying where one for update;

-- listen_for_good: have events written, whether or not a server is up to read them, from now on
with heard as (update duetime.listening set until = 'infinity' where one and until < 'infinity')
update duetime.notifying set number = :number where one and number is null;

-- listen_no_more: no subscription and no alert rule needs events any more; readers keep events coming for themselves
with heard as (
    update duetime.listening set until = duetime.now() + :period::interval
    where one and until = 'infinity' and not exists (select 1 from duetime.subscriptions)
        and not exists (select 1 from duetime.alerts where hears)
)
update duetime.notifying set number = null
where one and not exists (select 1 from duetime.subscriptions)
        and not exists (select 1 from duetime.alerts where hears);

-- slow_candidates: running runs of jobs that say how long is usual, and how long they have been running
select r.tenant_id, r.id, r.options, duetime.now() - r.started_at as ran_for
from duetime.claims c cross join lateral (
    select o.* from duetime.runs o
    where o.id = any(c.run_ids) and o.worker_id = c.worker_id and o.claim_no = c.claim_no offset 0) r
where c.claimed_at < duetime.now() - interval '1 second' and r.options is not null
    and position('"warn_after"'::bytea in r.options) > 0;

-- held_slots: how many runs each worker holds
select c.worker_id, count(*) as count from duetime.claims c cross join lateral (
    select 1 from duetime.runs o
    where o.id = any(c.run_ids) and o.worker_id = c.worker_id and o.claim_no = c.claim_no offset 0) r
group by c.worker_id;
