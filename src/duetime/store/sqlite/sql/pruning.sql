-- prune_jobs: remove recurring jobs that ended long ago
delete from jobs where id in (select id from jobs where ended_at < :before order by ended_at limit :batch);

-- history_in_turn: when the first row of history ended
select rowid, finished_at from history where rowid > :after order by rowid limit :batch;

-- prune_history: remove rows that ended long ago
delete from history where rowid > :after and rowid <= :until and finished_at < :before
    -- Where history is archived: what is in files that were compared.
    and (not :archived or exists (select 1 from archive_days d where d.day = history.finished_at / 86400000000
        and d.released_at is not null and history.rowid <= d.mark
        and (d.restored_until is null or d.restored_until < :now)));

-- keys_in_turn: where a part of the old keys ends
select created_at from keys where created_at > :after and created_at < :before order by created_at
limit 1 offset :batch - 1;

-- prune_keys: remove old keys whose job or graph has ended, part by part
delete from keys where (tenant_id, kind, key) in (
    select k.tenant_id, k.kind, k.key from keys k
    where k.created_at > :after and k.created_at < :before and k.created_at <= :until
        -- As long as the run that was repeated can be found.
        and (k.kind <> 'r' or k.created_at < :repeats_before)
        and not exists (select 1 from jobs j where j.id = k.job_id and j.state < JobState.ENDED)
        and not exists (select 1 from runs r where r.tenant_id = k.tenant_id and r.job_id = k.job_id)
        and not exists (select 1 from graphs g where g.id = k.job_id and g.ended_at is null));

-- labels_in_turn: jobs with labels, oldest first
select distinct job_id from labels where job_id > :after and job_id < :before order by job_id limit :batch;

-- sweep_labels: remove the labels of jobs that no home has; returns how many jobs were checked, and the last one
delete from labels where job_id in (
    select substr(:ids, x.key * 16 + 1, 16) as id from json_each(:places) x)
    and not exists (select 1 from jobs j where j.id = labels.job_id)
    and not exists (select 1 from runs r where r.tenant_id = labels.tenant_id and r.job_id = labels.job_id)
    and not exists (select 1 from history h where h.tenant_id = labels.tenant_id and h.job_id = labels.job_id
        and h.end_state is not null)
    and not exists (select 1 from dead_letters d where d.job_id = labels.job_id);

-- payload_refs_in_turn: references to payloads, oldest first
select payload_id, job_id from payload_refs
where (payload_id, job_id) > (:payload, :job) and payload_id < :before order by payload_id, job_id limit :batch;

-- sweep_payload_refs: remove those of a part whose job no home has
delete from payload_refs
where (payload_id, job_id) > (:payload, :job) and (payload_id, job_id) <= (:last_payload, :last_job)
    and not exists (select 1 from jobs j where j.id = payload_refs.job_id)
    and not exists (select 1 from runs r where r.tenant_id = payload_refs.tenant_id and r.job_id = payload_refs.job_id)
    and not exists (select 1 from history h where h.tenant_id = payload_refs.tenant_id and h.job_id = payload_refs.job_id
        and h.end_state is not null)
    and not exists (select 1 from dead_letters d where d.job_id = payload_refs.job_id);

-- payloads_in_turn: payloads, oldest first
select id from payloads where id > :after and id < :before order by id limit :batch;

-- sweep_payloads: remove those of these payloads that have no references
delete from payloads where id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:places) x)
    and not exists (select 1 from payload_refs f where f.payload_id = payloads.id);

-- prune_live_logs: remove live logs of ended attempts
delete from live_logs where run_id in (
    select g.run_id from live_logs g where g.at < :before
        and not exists (select 1 from runs r where r.id = g.run_id and r.fence = g.fence)
    order by g.at limit :batch);

-- see_tasks: renew the entries of tasks that live workers provide
update tasks set seen_at = :now
where seen_at < :before and exists (
    select 1 from workers w, json_each(w.tasks) x where x.value = tasks.name and w.tenant_id is tasks.tenant_id);

-- prune_tasks: remove the defaults of tasks that no worker has provided for long
delete from tasks where rowid in (select rowid from tasks where seen_at < :before order by seen_at limit :batch);

-- prune_users: remove calendar references of jobs that no longer exist
delete from calendar_users where (tenant_id, name, job_id) in (
    select u.tenant_id, u.name, u.job_id from calendar_users u
    where not exists (select 1 from jobs j where j.id = u.job_id) limit :batch);
