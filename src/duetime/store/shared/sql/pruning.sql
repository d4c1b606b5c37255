-- prune_sessions: remove sessions that are over
delete from duetime.sessions where id in (
    select id from duetime.sessions where expires_at < :before::timestamptz order by expires_at limit :batch
    for update skip locked);

-- prune_past_workers: forget workers that ended long ago
delete from duetime.past_workers where id in (
    select id from duetime.past_workers where ended_at < :before::timestamptz order by ended_at limit :batch
    for update skip locked);

-- prune_login_links: remove links that were not used in time
delete from duetime.login_links where hash in (
    select hash from duetime.login_links where expires_at < :before::timestamptz order by expires_at limit :batch
    for update skip locked);

-- prune_deleted_jobs: forget jobs that were deleted so long ago that nothing of them is left
delete from duetime.deleted_jobs where job_id in (
    select job_id from duetime.deleted_jobs where deleted_at < :before::timestamptz order by deleted_at limit :batch
    for update skip locked);

-- prune_dead_letters: remove dead letters that were not replayed for long
delete from duetime.dead_letters where run_id in (
    select run_id from duetime.dead_letters where died_at < :before::timestamptz order by died_at limit :batch
    for update skip locked);

-- prune_jobs: remove recurring jobs that ended long ago
delete from duetime.jobs where id = any(array(
    select id from duetime.jobs where ended_at < :before::timestamptz order by ended_at limit :batch
    for update skip locked));

-- own_history_days: the tenants whose history is kept for a time of their own
select id as tenant_id, (quotas ->> 'history_days')::integer as count from duetime.tenants
where (quotas ->> 'history_days') is not null;

-- prune_lanes: remove lanes that have been asleep for so long that nothing refers to them
delete from duetime.lanes where id = any(array(
    select l.id from duetime.lanes l where not l.awake and l.changed_at < :before::timestamptz
        and not exists (select 1 from duetime.dead_letters d where d.lane_id = l.id)
    order by l.changed_at limit :batch for update skip locked)) and not awake;

-- prune_buckets: remove full buckets: a bucket without a row is full
delete from duetime.token_buckets where ctid = any(array(
    select ctid from duetime.token_buckets where full_at < :before::timestamptz limit :batch for update skip locked));

-- prune_live_logs: remove live logs of ended attempts
delete from duetime.live_logs where run_id in (
    select g.run_id from duetime.live_logs g where g.at < :before::timestamptz
        and (select 1 from duetime.runs r where r.id = g.run_id and r.fence = g.fence limit 1) is null
    order by g.at limit :batch);

-- prune_tasks: remove the defaults of tasks that no worker has provided for long
delete from duetime.tasks where ctid in (
    select t.ctid from duetime.tasks t where t.seen_at < :before::timestamptz order by t.seen_at limit :batch
    for update skip locked);

-- prune_followers: forget who ran after others and is gone
delete from duetime.followers as f where (select 1 from duetime.jobs j where j.id = f.job_id limit 1) is null;

-- keys_in_turn: where a part of the old keys ends
select created_at from duetime.keys where created_at > :after::timestamptz and created_at < :before::timestamptz
order by created_at limit 1 offset :batch::int - 1;

-- labels_in_turn: jobs with labels, oldest first, one row for each label
select job_id as id from duetime.labels where job_id > :after and job_id < :before order by job_id limit :batch;

-- sweep_labels: remove the labels of those of these jobs that no home has
delete from duetime.labels as l where l.job_id = any(:ids::uuid[])
    and (select 1 from duetime.jobs j where j.id = l.job_id limit 1) is null
    and (select 1 from duetime.runs r where r.tenant_id = l.tenant_id and r.job_id = l.job_id limit 1) is null
    and (select 1 from duetime.history h where h.tenant_id = l.tenant_id and h.job_id = l.job_id
        and h.end_state is not null limit 1) is null
    and (select 1 from duetime.dead_letters d where d.job_id = l.job_id limit 1) is null;

-- payload_refs_in_turn: references to payloads, oldest first
select payload_id, job_id from duetime.payload_refs
where (payload_id, job_id) > (:payload_id::uuid, :job_id::uuid) and payload_id < :before
order by payload_id, job_id limit :batch;

-- sweep_payload_refs: remove those of a part whose job no home has
delete from duetime.payload_refs as f
where (f.payload_id, f.job_id) > (:payload_id::uuid, :job_id::uuid)
    and (f.payload_id, f.job_id) <= (:last_payload::uuid, :last_job::uuid)
    and (select 1 from duetime.jobs j where j.id = f.job_id limit 1) is null
    and (select 1 from duetime.runs r where r.tenant_id = f.tenant_id and r.job_id = f.job_id limit 1) is null
    and (select 1 from duetime.history h where h.tenant_id = f.tenant_id and h.job_id = f.job_id
        and h.end_state is not null limit 1) is null
    and (select 1 from duetime.dead_letters d where d.job_id = f.job_id limit 1) is null;

-- payloads_in_turn: payloads, oldest first
select id from duetime.payloads where id > :after and id < :before order by id limit :batch;

-- sweep_payloads: remove those of these payloads that have no references
delete from duetime.payloads as p where p.id = any(:ids::uuid[])
    and (select 1 from duetime.payload_refs f where f.payload_id = p.id limit 1) is null;

-- edges_in_turn: jobs that depend on others, oldest first
select job_id as id from duetime.dependents where job_id > :after and job_id < :before order by job_id limit :batch;

-- sweep_dependents: forget how those of these jobs waited that are nowhere any more
delete from duetime.dependents as d where d.job_id = any(:ids::uuid[])
    and (select 1 from duetime.runs r where r.tenant_id = d.tenant_id and r.job_id = d.job_id limit 1) is null
    and (select 1 from duetime.nodes n where n.job_id = d.job_id limit 1) is null
    and (select 1 from duetime.history h where h.tenant_id = d.tenant_id and h.job_id = d.job_id
        and h.end_state is not null limit 1) is null;

-- sweep_edges: forget what they depended on
delete from duetime.edges as e where e.child_id = any(:ids::uuid[])
    and (select 1 from duetime.dependents d where d.job_id = e.child_id limit 1) is null;
