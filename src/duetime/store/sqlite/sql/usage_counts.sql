-- usage_place: up to which row of history usage was counted, and the end of the next part
select p.row, p.counted_at, (select max(rowid) from (
    select rowid from history where rowid > p.row order by rowid limit :batch)) as last
from usage_place p;

-- count_usage: add a part of history to what tenants have used
insert into usage (tenant_id, day, queue, runs, failed, attempts, run_us, bytes)
select h.tenant_id, h.finished_at / 86400000000, coalesce(l.queue, ''),
    sum(h.end_state is not null and h.end_state <> RunState.SKIPPED), sum(coalesce(h.end_state = RunState.FAILED, 0)),
    sum(h.started_at is not null), sum(coalesce(max(0, h.finished_at - h.started_at), 0)),
    sum(coalesce(length(h.args), 0) + coalesce(length(h.result), 0) + coalesce(length(h.logs), 0)
        + coalesce(length(cast(h.error as blob)), 0))
from history h left join lanes l on l.id = h.lane_id where h.rowid > :after and h.rowid <= :until
group by 1, 2, 3
on conflict (tenant_id, day, queue) do update set runs = runs + excluded.runs, failed = failed + excluded.failed,
    attempts = attempts + excluded.attempts, run_us = run_us + excluded.run_us, bytes = bytes + excluded.bytes;
update usage_place set row = :until;

-- end_usage_count: history was counted to its end
update usage_place set counted_at = :now;

-- skip_restored_usage: rows of history that came back were counted before
update usage_place set row = (select coalesce(max(rowid), 0) from history);
