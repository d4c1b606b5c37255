-- template past(lost)
insert into duetime.past_workers (id, tenant_id, name, tasks, queues, slots, started_at, heard_at, version, ended_at, lost,
    held, run_ids)
select g.id, g.tenant_id, g.name, g.tasks, g.queues, g.slots, g.started_at, g.heard_at, g.version, duetime.clock(), {lost},
    coalesce(r.held, '{}'), r.ids
from gone g cross join lateral (
    with held as materialized (
        select r.id, r.tenant_id from duetime.claims c cross join lateral unnest(c.run_ids) as u(id)
        join duetime.runs r on r.id = any(array[u.id]) and r.worker_id = c.worker_id and r.claim_no = c.claim_no
        where c.worker_id = g.id)
    select array(
            select h.id from (select id, row_number() over (partition by tenant_id) as place from held) h
            where h.place <= 10) as ids,
        (select json_object_agg(t.tenant_id, t.runs) from (select tenant_id, count(*) as runs from held group by 1) t)::text
            as held) r
on conflict do nothing
-- end

-- leave: end a worker's lease, and keep that it left
with gone as (delete from duetime.workers where id = :worker_id returning *)
{past: false};

-- forget_dead_workers: remove workers whose lease is over, except for one that is renewing it, and keep that they were lost
with gone as (
    delete from duetime.workers where id in (
        select w.id from duetime.workers w where w.lease_until <= duetime.clock() order by w.id for update skip locked)
    returning *)
{past: true};
