-- prune_jobs: remove recurring jobs that ended long ago
delete from duetime.jobs where id = any(array(
    select id from duetime.jobs where ended_at < $1::timestamptz order by ended_at limit $2
    for update skip locked));

-- prune_keys: remove old keys whose job or graph has ended, part by part; returns the end of the part, and how many
with part as materialized (
    select coalesce($3::timestamptz, '-infinity') as after, $1::timestamptz as before, (
        select k.created_at from duetime.keys k
        where k.created_at > coalesce($3::timestamptz, '-infinity') and k.created_at < $1::timestamptz
        order by k.created_at offset $2 - 1 limit 1) as until
),
gone as (
    delete from duetime.keys where ctid = any(array(
        select k.ctid from duetime.keys k
        where k.created_at > (select after from part) and k.created_at < (select before from part)
            and k.created_at <= (select coalesce(until, before) from part)
            -- As long as the run that was repeated can be found.
            and (k.kind <> 'r' or k.created_at < $4::timestamptz)
            -- A probe for each: `not exists` could be a join with all jobs, where the part is thought to be large.
            and (select 1 from duetime.jobs j where j.id = k.job_id and j.state < JobState.ENDED) is null
            and (select 1 from duetime.runs r where r.tenant_id = k.tenant_id and r.job_id = k.job_id limit 1) is null
            and (select 1 from duetime.graphs g where g.id = k.job_id and g.ended_at is null) is null
        for update skip locked))
    returning 1
)
select until, (select count(*) from gone) from part;

-- sweep_labels: remove the labels of jobs that no home has; returns how many jobs were checked, and the last one
with part as materialized (
    select distinct l.tenant_id, l.job_id from (
        select tenant_id, job_id from duetime.labels where job_id > $1 and job_id < $2 order by job_id limit $3) l
),
gone as (
    delete from duetime.labels l using part p
    where l.job_id = p.job_id
        and (select 1 from duetime.jobs j where j.id = p.job_id limit 1) is null
        and (select 1 from duetime.runs r where r.tenant_id = p.tenant_id and r.job_id = p.job_id limit 1) is null
        and not exists (select 1 from duetime.history h where h.tenant_id = p.tenant_id and h.job_id = p.job_id
            and h.end_state is not null)
        and not exists (select 1 from duetime.dead_letters d where d.job_id = p.job_id)
    returning 1
)
select (select count(*) from (
            select 1 from duetime.labels where job_id > $1 and job_id < $2 order by job_id limit $3) seen),
    (select job_id from part order by job_id desc limit 1), (select count(*) from gone);

-- sweep_payload_refs: remove references to payloads of jobs that no home has; returns how many were checked,
-- the last of them, and how many went
with part as materialized (
    select payload_id, job_id, tenant_id from duetime.payload_refs
    where (payload_id, job_id) > ($1, $2) and payload_id < $3 order by payload_id, job_id limit $4
),
gone as (
    delete from duetime.payload_refs f using part p
    where f.payload_id = p.payload_id and f.job_id = p.job_id
        and (select 1 from duetime.jobs j where j.id = p.job_id limit 1) is null
        and (select 1 from duetime.runs r where r.tenant_id = p.tenant_id and r.job_id = p.job_id limit 1) is null
        and not exists (select 1 from duetime.history h where h.tenant_id = p.tenant_id and h.job_id = p.job_id
            and h.end_state is not null)
        and not exists (select 1 from duetime.dead_letters d where d.job_id = p.job_id)
    returning 1
),
last as (select payload_id, job_id from part order by payload_id desc, job_id desc limit 1)
select (select count(*) from part), (select payload_id from last), (select job_id from last), (select count(*) from gone);

-- sweep_payloads: remove payloads without references; returns how many were checked, and the last one
with part as materialized (
    select id from duetime.payloads where id > $1 and id < $2 order by id limit $3
),
gone as (
    delete from duetime.payloads o using part p
    where o.id = p.id and not exists (select 1 from duetime.payload_refs f where f.payload_id = p.id)
    returning 1
)
select (select count(*) from part), (select id from part order by id desc limit 1), (select count(*) from gone);

-- prune_live_logs: remove live logs of ended attempts
delete from duetime.live_logs where run_id in (
    select g.run_id from duetime.live_logs g where g.at < $1::timestamptz
        and (select true from duetime.runs r where r.id = g.run_id and r.fence = g.fence limit 1) is null
    order by g.at limit $2);

-- see_tasks: renew the entries of tasks that live workers provide
update duetime.tasks set seen_at = duetime.clock() where ctid in (
    select t.ctid from duetime.tasks t where t.seen_at < $1::timestamptz and exists (
        select 1 from duetime.workers w where t.name = any(w.tasks) and w.tenant_id is not distinct from t.tenant_id)
    for update of t skip locked);

-- prune_tasks: remove the defaults of tasks that no worker has provided for long
delete from duetime.tasks where ctid in (
    select t.ctid from duetime.tasks t where t.seen_at < $1::timestamptz order by t.seen_at limit $2
    for update skip locked);

-- prune_users: remove calendar references of jobs that no longer exist
delete from duetime.calendar_users where ctid = any(array(
    select u.ctid from duetime.calendar_users u
    where (select 1 from duetime.jobs j where j.id = u.job_id limit 1) is null limit $1));
