-- prune_jobs: remove recurring jobs that ended long ago
delete from jobs where id in (select id from jobs where ended_at < :now - :age order by ended_at limit :batch);

-- prune_history: remove what was over long ago; the oldest rows stand first
delete from history where rowid in (
    select rowid from (select rowid, finished_at from history order by rowid limit :batch)
    where finished_at < :now - :age);

-- prune_dead_letters: remove dead letters that nobody replayed for long
delete from dead_letters where run_id in (
    select run_id from dead_letters where died_at < :now - :age order by died_at limit :batch);

-- prune_keys: remove old keys whose job is not alive any more
delete from keys where (tenant_id, kind, key) in (
    select k.tenant_id, k.kind, k.key from keys k where k.created_at < :now - :age
        and not exists (select 1 from jobs j where j.id = k.job_id and j.state < 2)
        and not exists (select 1 from runs r where r.tenant_id = k.tenant_id and r.job_id = k.job_id)
    order by k.created_at limit :batch);

-- prune_deleted_jobs: forget jobs that were deleted so long ago that nothing of them is left
delete from deleted_jobs where job_id in (
    select job_id from deleted_jobs where deleted_at < :now - :age order by deleted_at limit :batch);

-- labels_in_turn: jobs with labels, from old to young
select distinct job_id from labels where job_id > :after and job_id < :before order by job_id limit :batch;

-- sweep_labels: forget the labels of those of these jobs that are nowhere any more
delete from labels where job_id in (
    select substr(:ids, x.key * 16 + 1, 16) as id from json_each(:places) x)
    and not exists (select 1 from jobs j where j.id = labels.job_id)
    and not exists (select 1 from runs r where r.tenant_id = labels.tenant_id and r.job_id = labels.job_id)
    and not exists (select 1 from history h where h.tenant_id = labels.tenant_id and h.job_id = labels.job_id
        and h.end_state is not null)
    and not exists (select 1 from dead_letters d where d.job_id = labels.job_id);

-- payloads_in_turn: payloads, from old to young
select id from payloads where id > :after and id < :before order by id limit :batch;

-- sweep_payloads: remove those of these payloads that nothing refers to any more
delete from payloads where id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:places) x)
    and not exists (
        select 1 from payload_refs f where f.payload_id = payloads.id and (
            exists (select 1 from jobs j where j.id = f.job_id)
            or exists (select 1 from runs r where r.tenant_id = f.tenant_id and r.job_id = f.job_id)
            or exists (select 1 from history h where h.tenant_id = f.tenant_id and h.job_id = f.job_id
            and h.end_state is not null)
            or exists (select 1 from dead_letters d where d.job_id = f.job_id)));

-- sweep_payload_refs: forget references to payloads that are gone
delete from payload_refs where payload_id in (select substr(:ids, x.key * 16 + 1, 16) from json_each(:places) x)
    and not exists (select 1 from payloads p where p.id = payload_refs.payload_id);

-- prune_live_logs: forget what attempts logged that are over by now
delete from live_logs where run_id in (
    select g.run_id from live_logs g where g.at < :now - :age
        and not exists (select 1 from runs r where r.id = g.run_id and r.fence = g.fence)
    order by g.at limit :batch);
