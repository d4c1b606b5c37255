-- count_runs: how many runs there are
select count(*) from runs;

-- last_swept: how far a step of the sweep reaches, and how many runs it sees
select max(id), count(*) from (select id from runs where id > :after order by id limit :take);

-- strays: the running runs in a stretch of ids that no claim and no handover lists, and the waiting ones that have expired
-- before their first start
select r.id, r.fence, r.worker_id, r.claim_no from runs r
where r.id > :after and r.id <= :last
    and case when r.worker_id is not null then r.started_at is null or r.started_at not between :settled and :now
        when r.options is null or instr(r.options, cast('"expires_in"' as blob)) = 0 then false
        when not json_valid(cast(r.options as text)) then false -- one unreadable row must not stop the walk
        else r.attempt = 0 and r.lost = 0 and r.lane_id is not null and not r.manual
            and r.due_at + (cast(r.options as text) ->> '$.expires_in') * 1000000 < :now end
    and case when r.worker_id is null then true when r.claim_no is null
        then not exists (select 1 from handovers h where h.run_id = r.id and h.fence = r.fence)
        else not exists (
            select 1 from claims c
            where c.worker_id = r.worker_id and c.claim_no = r.claim_no and instr(c.run_ids, r.id) > 0) end;

-- list_strays: list strays in a claim under the number that they have, where that is free
insert into claims (worker_id, claim_no, claimed_at, deadline, run_ids, standing)
select :worker_id, :claim_no, :now, min(min(r.started_at, :now) + r.timeout_ms * 1000), :ids, ClaimStanding.SWEPT
from json_each(:places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16) where true
on conflict (worker_id, claim_no) do nothing;

-- set_apart: list runs of a worker in a claim of their own, which that worker does not hold
update runs set claim_no = :apart
where id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:places) x)
    and worker_id = :worker_id and claim_no is not null;
insert into claims (worker_id, claim_no, claimed_at, run_ids, standing)
values (:worker_id, :apart, :now, :ids, ClaimStanding.NOT_HELD)
on conflict (worker_id, claim_no) do update set run_ids = cast(run_ids || excluded.run_ids as blob);

-- list_stray_handovers: strays that were handed over have the time that is left of their timeout, or none
insert into handovers (run_id, tenant_id, fence, handed_at, deadline)
select r.id, r.tenant_id, r.fence, :now, max(:now, coalesce(min(r.started_at, :now) + r.timeout_ms * 1000, :now))
from json_each(:places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16) where true
on conflict (run_id) do update
set fence = excluded.fence, handed_at = excluded.handed_at, deadline = excluded.deadline;

-- late_runs: waiting runs as a claim would find them now
select r.id, r.job_id, r.lane_id, r.fence + 1, r.attempt + 1, r.lost, r.due_at, r.ready_at, :now, r.args, r.options,
    r.timeout_ms, r.checkpoint
from json_each(:places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16) where r.worker_id is null;

-- take_late: hold runs that are about to end without a start
update runs set worker_id = :worker_id, fence = fence + 1, attempt = attempt + 1, started_at = :now
where id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:places) x);
