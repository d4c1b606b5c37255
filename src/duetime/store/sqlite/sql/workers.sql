-- template past(lost, which)
insert into past_workers (id, tenant_id, name, tasks, queues, slots, started_at, heard_at, version, ended_at, lost, held,
    run_ids)
with held as (
    -- As many numbers as there are ids in the blob.
    select c.worker_id, r.id, r.tenant_id, row_number() over (partition by c.worker_id, r.tenant_id) as place
    from workers w cross join claims c on c.worker_id = w.id
    cross join json_each('[' || substr(replace(hex(zeroblob(length(c.run_ids) / 16)), '00', ',0'), 2) || ']') x
    cross join runs r on r.id = substr(c.run_ids, x.key * 16 + 1, 16) and r.worker_id = c.worker_id and r.claim_no = c.claim_no
    where {which}
)
select w.id, w.tenant_id, w.name, w.tasks, w.queues, w.slots, w.started_at, w.heard_at, w.version, :now, {lost},
    (select json_group_object(t.tenant_id, t.runs) from (
        select h.tenant_id, count(*) as runs from held h where h.worker_id = w.id group by h.tenant_id) t),
    (select coalesce(group_concat(hex(h.id), ''), '') from held h where h.worker_id = w.id and h.place <= 10)
from workers w where {which}
on conflict do nothing;
delete from workers as w where {which}
-- end

-- leave: end a worker's lease, and keep that it left
{past: 0 | w.id = :worker_id};

-- forget_dead_workers: remove workers whose lease is over, and keep that they were lost
{past: 1 | w.lease_until <= :now};
