-- prune_jobs: remove recurring jobs that ended long ago
delete from duetime.jobs where id in (
    select id from duetime.jobs where ended_at < duetime.now() - $1::interval order by ended_at limit $2
    for update skip locked);

-- prune_dead_letters: remove dead letters that nobody replayed for long
delete from duetime.dead_letters where run_id in (
    select run_id from duetime.dead_letters where died_at < duetime.now() - $1::interval order by died_at limit $2
    for update skip locked);

-- prune_keys: remove old keys whose job is not alive any more
delete from duetime.keys where ctid = any(array(
    select k.ctid from duetime.keys k where k.created_at < duetime.now() - $1::interval
        and not exists (select 1 from duetime.jobs j where j.id = k.job_id and j.state < 2)
        and not exists (select 1 from duetime.runs r where r.tenant_id = k.tenant_id and r.job_id = k.job_id)
    order by k.created_at limit $2 for update skip locked));
