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
