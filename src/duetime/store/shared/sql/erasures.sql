-- plan_erasure: a tenant is to be erased
insert into duetime.erasures (tenant_id, name_hash, state_before, requested_at, requested_by, key_id, erase_at, progress,
    removed)
values (:tenant_id, :name_hash, :state_before, duetime.now(), :requested_by, :key_id, :erase_at, :progress, :removed);

-- withdraw_erasure: a tenant is not to be erased, if that has not begun
delete from duetime.erasures where tenant_id = :tenant_id and started_at is null;

-- lock_tenant: a tenant, locked against other changes
select id, name, state, tier, weight, stored_jobs, running_runs, submissions_per_second, fires_per_second,
    quotas, encrypt_args, defaults, created_at
from duetime.tenants where id = :tenant_id for update;

-- set_tenant_state: close a tenant, or open it again
update duetime.tenants set state = :state where id = :tenant_id;

-- list_erasures: erasures, those of the newest tenants first
select tenant_id, name_hash, state_before, requested_at, requested_by, key_id, erase_at, step, started_at, finished_at,
    progress as plan, removed as said, problem
from duetime.erasures where (:tenant_id::int is null or tenant_id = :tenant_id) and tenant_id < :before
order by tenant_id desc limit :limit;

-- take_erasure: hold an erasure that is due, unless another node does. A hold that ends later than any can was made
-- before the clock went back
update duetime.erasures set holder = :holder, held_until = :until
where tenant_id in (
    select tenant_id from duetime.erasures
    where finished_at is null and (started_at is not null or erase_at <= :trusted or erase_at <= requested_at)
        and (holder = :holder or held_until <= :at or held_until > :until)
    order by erase_at limit 1 for update skip locked)
returning tenant_id, name_hash, state_before, requested_at, requested_by, key_id, erase_at, step, started_at, finished_at,
    progress as plan, removed as said, problem;

-- release_erasure: let another node go on with an erasure
update duetime.erasures set holder = null, held_until = :until, problem = :problem
where tenant_id = :tenant_id and holder = :holder;

-- lock_erasure: an erasure, locked against other nodes
select tenant_id, name_hash, state_before, requested_at, requested_by, key_id, erase_at, step, started_at, finished_at,
    progress as plan, removed as said, problem
from duetime.erasures where tenant_id = :tenant_id for update;

-- put_erasure: keep how far an erasure is
update duetime.erasures set step = :step, started_at = :started_at, finished_at = :finished_at, progress = :progress,
    removed = :removed
where tenant_id = :tenant_id;

-- running_of_tenant: running runs of a tenant
select id, cancel_requested from duetime.runs where tenant_id = :tenant_id and worker_id is not null limit :limit;

-- awake_of_tenant: whether lanes of a tenant are awake
select 1 as count from duetime.lanes where tenant_id = :tenant_id and awake limit 1;

-- archiving_nodes: the claims of days that are being archived
select claimant as id from duetime.archive_days where claimant is not null and claimed_until > duetime.now();

-- search_place: how far the search index is, locked against other nodes
select body from duetime.search_index where one for update;

-- put_search_place: change how far the search index is
update duetime.search_index set body = :body where one;

-- drop_tenant: remove the row of a tenant
delete from duetime.tenants where id = :tenant_id;

-- template erase(table)
-- erase_{table}: remove some rows of a tenant
delete from duetime.{table} where ctid = any(array(
    select ctid from duetime.{table} where tenant_id = :tenant_id limit :batch));
-- end

{erase: dead_letters}

{erase: payloads}

{erase: graphs}

{erase: limits}

{erase: events}

{erase: terms}

{erase: token_buckets}

{erase: fire_rates}

{erase: audit}

-- erase_tasks: remove some rows of a tenant
delete from duetime.tasks where ctid = any(array(
    select ctid from duetime.tasks where coalesce(tenant_id, -1) = :tenant_id limit :batch));

-- erase_jobs: remove some jobs of a tenant, after their cursors
delete from duetime.jobs where id = any(array(
    select j.id from duetime.jobs j where j.tenant_id = :tenant_id
        and (select 1 from duetime.cursors c where c.job_id = j.id) is null
    limit :batch));

-- erase_cursors: remove some cursors of a tenant's jobs
delete from duetime.cursors where job_id = any(array(
    select j.id from duetime.jobs j where j.tenant_id = :tenant_id
        and (select 1 from duetime.cursors c where c.job_id = j.id) is not null
    limit :batch));

-- erase_sessions: remove the sessions of a tenant's keys, and of people with a role in it
delete from duetime.sessions where :tenant_id::int = any(tenant_ids) or key_id = any(array(
    select id from duetime.api_keys where coalesce(tenant_id, 0) = :tenant_id));

-- erase_login_links: remove the login links of a tenant's keys
delete from duetime.login_links where key_id = any(array(
    select id from duetime.api_keys where coalesce(tenant_id, 0) = :tenant_id));

-- erase_api_keys: remove some keys of a tenant, after their sessions
delete from duetime.api_keys where id = any(array(
    select k.id from duetime.api_keys k where coalesce(k.tenant_id, 0) = :tenant_id
        and (select 1 from duetime.sessions s where s.key_id = k.id limit 1) is null
        and (select 1 from duetime.login_links n where n.key_id = k.id limit 1) is null
    limit :batch));

-- erase_cancels: remove requests to cancel runs of a tenant
delete from duetime.cancels where run_id = any(array(
    select x.run_id from duetime.cancels x
    where (select r.tenant_id from duetime.runs r where r.id = x.run_id) = :tenant_id limit :batch));

-- template walk(table, key)
-- {table}_until: where the next part of the table ends
select {key} as id from duetime.{table} where {key} > :after order by {key} limit 1 offset :window;

-- erase_{table}: remove the rows of a tenant from a part of the table
delete from duetime.{table}
where {key} > :after and (:until::uuid is null or {key} <= :until) and tenant_id = :tenant_id;
-- end

{walk: followers | parent_id}

{walk: live_logs | run_id}

{walk: ended | run_id}

{walk: dependents | job_id}

{walk: edges | parent_id}

{walk: nodes | job_id}

{walk: deleted_jobs | job_id}

{walk: payload_refs | payload_id}
