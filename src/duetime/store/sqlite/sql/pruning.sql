-- oldest_history: when the first row of history ended; rows that were written while the clock was ahead may come first
select min(finished_at) as finished_at from (select finished_at from history order by rowid limit 1000);

-- history_in_turn: when the first row of history ended
select rowid, finished_at from history where rowid > :after order by rowid limit :batch;

-- has_kept: whether jobs with retentions of their own have rows
select exists (select 1 from history indexed by history_kept where instr(options, x'22726574656e74696f6e223a') > 0) as known;

-- prune_kept: remove runs whose job has a retention of its own that is over, with all their rows of the day
delete from history where rowid in (
    select r.rowid from (
        select h.tenant_id, h.run_id, h.finished_at / 86400000000 as day from history h indexed by history_kept
        where instr(h.options, x'22726574656e74696f6e223a') > 0
            and h.finished_at + json_extract(cast(h.options as text), '$.retention') * 1000000 < :now
            -- Rounded up to days. Where history is archived, whole days go.
            and h.finished_at / :whole < (:now - (
                cast(json_extract(cast(h.options as text), '$.retention') + 0.999999 as integer) + 86399
            ) / 86400 * 86400000000) / :whole
            and (not :archived or exists (select 1 from archive_days d where d.day = h.finished_at / 86400000000
                and d.released_at is not null and h.rowid <= d.mark
                and (d.restored_until is null or d.restored_until < :now)))
            and h.rowid <= (select row from usage_place)
        limit :batch) x
    join history r on r.tenant_id = x.tenant_id and r.run_id = x.run_id and r.finished_at / 86400000000 = x.day);

-- retentions_of_jobs: for how long jobs keep runs of a day
select distinct finished_at / 86400000000 as day, json_extract(cast(options as text), '$.retention') as seconds
from history indexed by history_kept where instr(options, x'22726574656e74696f6e223a') > 0;

-- prune_history: remove rows that ended long ago, but not those whose job has a retention of its own
delete from history where rowid > :after and rowid <= :until
    and not (:has_kept and exists (
        select 1 from history k where k.tenant_id = history.tenant_id and k.run_id = history.run_id
            and instr(k.options, x'22726574656e74696f6e223a') > 0
            and k.finished_at / 86400000000 = history.finished_at / 86400000000
            and json_extract(cast(k.options as text), '$.retention') is not null))
    and finished_at < coalesce((select o.value from json_each(:own) o where o.key = cast(history.tenant_id as text)), :before)
    -- Where history is archived: what is in files that were compared.
    and (not :archived or exists (select 1 from archive_days d where d.day = history.finished_at / 86400000000
        and d.released_at is not null and history.rowid <= d.mark
        and (d.restored_until is null or d.restored_until < :now)))
    and rowid <= (select row from usage_place);

-- lower_usage_place: after rows of history were removed: a row that is added later may get the number of one of them
update usage_place set row = min(row, (select coalesce(max(rowid), 0) from history));

-- prune_keys: remove old keys whose job or graph has ended, part by part
delete from keys where (tenant_id, kind, key) in (
    select k.tenant_id, k.kind, k.key from keys k
    where k.created_at > :after and k.created_at < :before and k.created_at <= :until
        -- As long as the run that was repeated can be found.
        and (k.kind <> 'r' or k.created_at < :repeats_before)
        and not exists (select 1 from jobs j where j.id = k.job_id and j.state < JobState.ENDED)
        and not exists (select 1 from runs r where r.tenant_id = k.tenant_id and r.job_id = k.job_id)
        and not exists (select 1 from graphs g where g.id = k.job_id and g.ended_at is null));

-- see_tasks: renew the entries of tasks that live workers provide
update tasks set seen_at = :now
where seen_at < :before and exists (
    select 1 from workers w, json_each(w.tasks) x where x.value = tasks.name and w.tenant_id is tasks.tenant_id);

-- prune_users: remove calendar references of jobs that no longer exist
delete from calendar_users where (tenant_id, name, job_id) in (
    select u.tenant_id, u.name, u.job_id from calendar_users u
    where not exists (select 1 from jobs j where j.id = u.job_id) limit :batch);
