-- prune_keys: remove old keys of a part whose job or graph has ended
delete from duetime.keys where ctid = any(array(
    select k.ctid from duetime.keys k
    where k.created_at > :after::timestamptz and k.created_at < :before::timestamptz
        and k.created_at <= :until::timestamptz
        -- As long as the run that was repeated can be found.
        and (k.kind <> 'r' or k.created_at < :repeats_before::timestamptz)
        -- A probe for each: `not exists` could be a join with all jobs, where the part is thought to be large.
        and (select 1 from duetime.jobs j where j.id = k.job_id and j.state < JobState.ENDED) is null
        and (select 1 from duetime.runs r where r.tenant_id = k.tenant_id and r.job_id = k.job_id limit 1) is null
        and (select 1 from duetime.graphs g where g.id = k.job_id and g.ended_at is null) is null
    for update skip locked));

-- see_tasks: renew the entries of tasks that live workers provide
update duetime.tasks set seen_at = duetime.clock() where ctid in (
    select t.ctid from duetime.tasks t where t.seen_at < :before::timestamptz and exists (
        select 1 from duetime.workers w where t.name = any(w.tasks) and w.tenant_id is not distinct from t.tenant_id)
    for update of t skip locked);

-- prune_users: remove calendar references of jobs that no longer exist
delete from duetime.calendar_users where ctid = any(array(
    select u.ctid from duetime.calendar_users u
    where (select 1 from duetime.jobs j where j.id = u.job_id limit 1) is null limit :batch));
