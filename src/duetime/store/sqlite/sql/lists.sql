-- template read_ends
h.run_id, h.job_id, h.lane_id, h.attempt, h.lost, h.end_state, h.failure, substr(h.error, 1, 500) as error,
            h.due_at, h.ready_at, h.started_at, h.first_started_at, h.finished_at, h.worker_id, h.options
-- end

-- template found
found as (
    select l.run_id as id, l.job_id, :tenant_id as tenant_id, n.task, n.queue, n.tier, l.attempt, l.lost, l.end_state,
        l.failure, l.error, l.due_at, l.ready_at, l.started_at, l.first_started_at, l.finished_at, l.worker_id,
        l.options
    from looked l join lanes n on n.id = l.lane_id
    where l.end_state is not null and (:state is null or l.end_state = :state)
        and (:task is null or n.task = :task) and (:queue is null or n.queue = :queue)
        and (:due_from is null or l.due_at >= :due_from) and (:due_until is null or l.due_at < :due_until)
    order by l.run_id desc limit :limit
)
-- end

-- list_labelled: jobs with a label, newest first; `among` is false if another wanted label is missing
select l.job_id, not exists (
    select 1 from json_each(:kinds) k join json_each(:values) v on v.key = k.key where not exists (
        select 1 from labels o where o.tenant_id = :tenant_id and o.kind = k.value and o.value = v.value
            and o.job_id = l.job_id)) as among
from labels l not indexed where l.tenant_id = :tenant_id and l.kind = :kind and l.value = :value and l.job_id < :before
order by l.job_id desc limit :bound;

-- list_by_name: the names of jobs in their order, from a place on or down from it
select value, job_id from (
    select l.value, l.job_id from labels l not indexed where not :down and l.tenant_id = :tenant_id and l.kind = 'n'
        and (l.value, l.job_id) > (coalesce(:value, ''), coalesce(:job_id, x''))
    order by l.value, l.job_id limit :bound)
union all
select value, job_id from (
    select l.value, l.job_id from labels l not indexed where :down and :value is not null and l.tenant_id = :tenant_id
        and l.kind = 'n' and (l.value, l.job_id) < (:value, :job_id)
    order by l.value desc, l.job_id desc limit :bound)
union all
select value, job_id from (
    select l.value, l.job_id from labels l not indexed where :down and :value is null and l.tenant_id = :tenant_id
        and l.kind = 'n'
    order by l.value desc, l.job_id desc limit :bound);

-- list_stored_jobs: jobs in the table `jobs`, newest first or by id; and the bounds of what was read
with looked as materialized (
    select * from (
        select id, tenant_id, task, queue, tier, state, recurring, schedule, options, version, created_at, problem
        from jobs where :ids is null and tenant_id = :tenant_id and id < :before order by id desc limit :bound)
    union all
    select j.id, j.tenant_id, j.task, j.queue, j.tier, j.state, j.recurring, j.schedule, j.options, j.version,
        j.created_at, j.problem
    from json_each(:ids_places) x cross join jobs j on j.id = substr(:ids, x.key * 16 + 1, 16) and j.tenant_id = :tenant_id
),
found as (
    select l.*, c.next_fire_at from looked l left join cursors c on c.job_id = l.id
    where (:states is null or l.state in (select value from json_each(:states)))
        and (:recurring is null or l.recurring = :recurring)
        and (:tasks is null or l.task in (select value from json_each(:tasks))) and (:queue is null or l.queue = :queue)
        and (:due_from is null or c.next_fire_at >= :due_from) and (:due_until is null or c.next_fire_at < :due_until)
        and not exists (select 1 from deleted_jobs d where d.job_id = l.id)
    order by l.id desc limit :limit
)
select b.seen, b.lowest, f.*, (
    select min(r.due_at) from runs r
    where r.tenant_id = :tenant_id and r.job_id = f.id and r.worker_id is null) as waiting
from (select count(*) as seen, min(id) as lowest from looked) b left join found f on true;

-- list_live_jobs: one-off jobs with a live run, newest first, or by id, or only running ones
with held as materialized (
    -- As many numbers as there are ids in the blob.
    select distinct substr(h.ids, x.key * 16 + 1, 16) as id
    from (select run_ids as ids from claims union all select run_id from handovers) h
    cross join json_each('[' || substr(replace(hex(zeroblob(length(h.ids) / 16)), '00', ',0'), 2) || ']') x
    where :running
),
looked as materialized (
    select * from (
        select id, job_id, home_lane, lane_id, worker_id, attempt, lost, due_at, ready_at, options from runs
        where :ids is null and not :running and tenant_id = :tenant_id and job_id < :before and job_id > :floor
        order by job_id desc limit :bound)
    union all
    select r.id, r.job_id, r.home_lane, r.lane_id, r.worker_id, r.attempt, r.lost, r.due_at, r.ready_at, r.options
    from json_each(:ids_places) x
    cross join runs r on r.tenant_id = :tenant_id and r.job_id = substr(:ids, x.key * 16 + 1, 16)
    union all
    select r.id, r.job_id, r.home_lane, r.lane_id, r.worker_id, r.attempt, r.lost, r.due_at, r.ready_at, r.options
    from held x cross join runs r on r.id = x.id
    where :ids is null and r.tenant_id = :tenant_id and r.job_id < :before
),
found as (
    select max(l.id) as id, l.job_id, n.task, n.queue, n.tier, l.lane_id, l.worker_id, l.attempt, l.lost, l.due_at,
        l.ready_at, l.options
    from looked l join lanes n on n.id = l.home_lane
    where (:state is null or :state = case
            when l.worker_id is not null then RunState.RUNNING when l.lane_id is null then RunState.BLOCKED
            when l.attempt > 0 or l.lost > 0 then RunState.RETRYING else RunState.PENDING end)
        and (:tasks is null or n.task in (select value from json_each(:tasks))) and (:queue is null or n.queue = :queue)
        and (:due_from is null or l.due_at >= :due_from) and (:due_until is null or l.due_at < :due_until)
        and not exists (select 1 from jobs j where j.id = l.job_id)
        and not exists (select 1 from deleted_jobs d where d.job_id = l.job_id)
    group by l.job_id order by l.job_id desc limit :limit
)
select b.seen, b.lowest, b.highest, f.*
from (select count(*) as seen, min(job_id) as lowest, max(job_id) as highest from looked) b left join found f on true;

-- walk_ended_jobs: one-off jobs among those whose runs ended, newest first, and the bounds of what was read. The own
-- run of a one-off has the job's own bits; other runs of it may have ended in a rare state alone.
with looked as materialized (
    select * from (
        select job_id, run_id from history indexed by history_of_job
        where coalesce(:state, RunState.SUCCEEDED) = RunState.SUCCEEDED and tenant_id = :tenant_id
            and job_id < :before and job_id > :floor
            and end_state is not null
        order by job_id desc, run_id desc limit :bound)
    union all
    select * from (
        select job_id, run_id from history indexed by history_ends_of_jobs
        where :state <> RunState.SUCCEEDED and tenant_id = :tenant_id and end_state = :state
            and end_state is not null and end_state <> RunState.SUCCEEDED
            and job_id < :before and job_id > :floor
        order by job_id desc, run_id desc limit :bound)
),
found as (
    select l.job_id from looked l group by l.job_id
    having max(substr(l.run_id, 9) = substr(l.job_id, 9))
        or :state <> RunState.SUCCEEDED and not exists (select 1 from jobs j where j.id = l.job_id)
    order by l.job_id desc
)
select count(*) as seen, min(job_id) as lowest, max(job_id) as highest,
    (select group_concat(hex(f.job_id), '') from found f) as ids, null as run_ids
from looked;

-- find_ended_jobs: of each of some jobs the end of its last run, and whether it lives elsewhere or was deleted
select h.job_id, h.run_id, h.end_state, h.due_at, h.options, n.task, n.queue, n.tier,
    exists (select 1 from jobs j where j.id = h.job_id)
    or exists (select 1 from runs r where r.tenant_id = :tenant_id and r.job_id = h.job_id)
    or exists (select 1 from deleted_jobs d where d.job_id = h.job_id) as elsewhere
from json_each(:ids_places) x
cross join history h on h.tenant_id = :tenant_id and h.job_id = substr(:ids, x.key * 16 + 1, 16)
    and h.end_state is not null and h.run_id = (
        select max(o.run_id) from history o where o.tenant_id = :tenant_id and o.job_id = h.job_id and o.end_state is not null)
join lanes n on n.id = h.lane_id
order by h.job_id desc;

-- list_live_runs: live runs of a tenant: of some jobs, or those that run, or all if they are few, or among the runs of all tenants
with held as materialized (
    -- As many numbers as there are ids in the blob.
    select distinct substr(h.ids, x.key * 16 + 1, 16) as id
    from (select run_ids as ids from claims union all select run_id from handovers) h
    cross join json_each('[' || substr(replace(hex(zeroblob(length(h.ids) / 16)), '00', ',0'), 2) || ']') x
    where :running
),
looked as materialized (
    select * from (
        select id, job_id, tenant_id, home_lane, lane_id, worker_id, attempt, lost, due_at, ready_at, started_at,
            first_started_at, options
        from runs where :job_ids is null and not :running and not :everybodys and tenant_id = :tenant_id and id < :before
        order by tenant_id, job_id limit :bound)
    union all
    select r.id, r.job_id, r.tenant_id, r.home_lane, r.lane_id, r.worker_id, r.attempt, r.lost, r.due_at, r.ready_at,
        r.started_at, r.first_started_at, r.options
    from json_each(:job_ids_places) x cross join runs r
        on r.tenant_id = :tenant_id and r.job_id = substr(:job_ids, x.key * 16 + 1, 16) and r.id < :before
    union all
    select r.id, r.job_id, r.tenant_id, r.home_lane, r.lane_id, r.worker_id, r.attempt, r.lost, r.due_at, r.ready_at,
        r.started_at, r.first_started_at, r.options
    from held x cross join runs r on r.id = x.id
    where :job_ids is null and r.tenant_id = :tenant_id and r.id < :before
    union all
    select * from (
        select id, job_id, tenant_id, home_lane, lane_id, worker_id, attempt, lost, due_at, ready_at, started_at,
            first_started_at, options
        from runs where :everybodys and id < :before order by id desc limit :bound)
),
found as (
    select l.id, l.job_id, l.tenant_id, n.task, n.queue, n.tier, l.lane_id, l.worker_id, l.attempt, l.lost, l.due_at,
        l.ready_at, l.started_at, l.first_started_at, l.options
    from looked l join lanes n on n.id = l.home_lane
    where l.tenant_id = :tenant_id
        and (:state is null or :state = case
            when l.worker_id is not null then RunState.RUNNING when l.lane_id is null then RunState.BLOCKED
            when l.attempt > 0 or l.lost > 0 then RunState.RETRYING else RunState.PENDING end)
        and (:task is null or n.task = :task) and (:queue is null or n.queue = :queue)
        and (:due_from is null or l.due_at >= :due_from) and (:due_until is null or l.due_at < :due_until)
    order by l.id desc limit :limit
)
select b.seen, b.lowest, f.* from (select count(*) as seen, min(id) as lowest from looked) b left join found f on true;

-- list_ended_runs: ended runs, newest first: of a job, or that ended in one of the rare states, or all
with looked as materialized (
    select * from (
        select {read_ends}
        from history h indexed by history_of_job
        where :job_id is not null and tenant_id = :tenant_id and job_id = :job_id and run_id < :before
            and end_state is not null
        order by run_id desc limit :bound)
    union all
    select * from (
        select {read_ends}
        from history h indexed by history_ends_of_runs
        where :job_id is null and :state <> RunState.SUCCEEDED and tenant_id = :tenant_id
            and end_state = :state and end_state is not null
            and end_state <> RunState.SUCCEEDED and run_id < :before
        order by run_id desc limit :bound)
    union all
    select * from (
        select {read_ends}
        from history h indexed by history_of_tenant
        where :job_id is null and coalesce(:state, RunState.SUCCEEDED) = RunState.SUCCEEDED
            and tenant_id = :tenant_id and run_id < :before
        order by run_id desc limit :bound)
),
{found}
select b.seen, b.lowest, b.highest, f.*
from (select count(*) as seen, min(run_id) as lowest, max(run_id) as highest from looked) b left join found f on true;

-- list_ended_runs_of: ended runs of some jobs, newest first, up to a bound for each job; `lowest` is the id from which on
-- all of them were read, if not all were
with wanted as materialized (
    select substr(:job_ids, x.key * 16 + 1, 16) as id from json_each(:job_ids_places) x
),
ends as materialized (
    -- The run at the bound of each job that has so many: from it on, all are read.
    select w.id, (
        select h.run_id from history h indexed by history_of_job
        where h.tenant_id = :tenant_id and h.job_id = w.id and h.run_id < :before and h.end_state is not null
        order by h.run_id desc limit 1 offset :bound - 1) as lowest
    from wanted w
),
looked as materialized (
    select {read_ends}
    from ends e cross join history h indexed by history_of_job
        on h.tenant_id = :tenant_id and h.job_id = e.id and h.run_id < :before and h.end_state is not null
        and (e.lowest is null or h.run_id >= e.lowest)
),
{found}
select b.lowest, f.* from (select max(lowest) as lowest from ends) b left join found f on true;

-- list_dead_letters: dead letters, newest first, and the bounds of what was read
with looked as materialized (
    select * from (
        select run_id, job_id, tenant_id, lane_id, attempt, lost, failure, error, due_at, died_at, options,
            fingerprint
        from dead_letters where tenant_id = :tenant_id and run_id < :before and :job_ids is null
        order by run_id desc limit :bound)
    union all
    select d.run_id, d.job_id, d.tenant_id, d.lane_id, d.attempt, d.lost, d.failure, d.error, d.due_at, d.died_at,
        d.options, d.fingerprint
    from json_each(:job_ids_places) x cross join dead_letters d indexed by dead_letters_of_job
        on d.job_id = substr(:job_ids, x.key * 16 + 1, 16) and d.tenant_id = :tenant_id and d.run_id < :before
),
found as (
    select l.run_id, l.job_id, l.tenant_id, n.task, n.queue, n.tier, l.attempt, l.lost, l.failure,
        substr(l.error, 1, 500) as error, l.due_at, l.died_at, l.options, l.fingerprint
    from looked l join lanes n on n.id = l.lane_id
    where (:run_id is null or l.run_id = :run_id) and (:task is null or n.task = :task)
        and (:queue is null or n.queue = :queue) and (:failure is null or l.failure = :failure)
        and (:died_from is null or l.died_at >= :died_from) and (:died_until is null or l.died_at < :died_until)
        and (:error is null or instr(l.error, :error) > 0)
        and (:fingerprint is null or l.fingerprint = :fingerprint)
    order by l.run_id desc limit :limit
)
select b.seen, b.lowest, f.* from (select count(*) as seen, min(run_id) as lowest from looked) b
left join found f on true;

-- group_dead_letters: dead letters grouped by error, the largest groups first, and how many were read
with looked as materialized (
    select run_id, lane_id, coalesce(fingerprint, '') as fingerprint, died_at from dead_letters
    where tenant_id = :tenant_id order by run_id desc limit :most
),
grouped as (
    select l.fingerprint, count(*) as size, min(l.died_at) as first_died_at, max(l.died_at) as died_at,
        max(l.run_id) as run_id, json_group_array(distinct n.task) as tasks
    from looked l join lanes n on n.id = l.lane_id
    group by l.fingerprint order by count(*) desc, l.fingerprint limit :limit
)
select g.fingerprint, g.size, g.first_died_at, g.died_at, g.run_id, g.tasks, d.failure,
    substr(d.error, 1, 500) as error, (select count(*) from looked) as counted
from grouped g join dead_letters d on d.run_id = g.run_id order by g.size desc, g.fingerprint;

-- job_facts: what decides whether jobs are in a scope
select w.id as job_id, (
        select l.value from labels l indexed by labels_of_job
        where l.job_id = w.id and l.tenant_id = :tenant_id and l.kind = 'o' limit 1) as owner,
    (select json_group_array(l.value) from labels l indexed by labels_of_job
        where l.job_id = w.id and l.tenant_id = :tenant_id and l.kind = 't') as tags,
    coalesce(
        (select j.queue from jobs j where j.id = w.id and j.tenant_id = :tenant_id),
        (select n.queue from runs r join lanes n on n.id = r.home_lane
            where r.tenant_id = :tenant_id and r.job_id = w.id limit 1),
        (select (select n.queue from lanes n where n.id = h.lane_id) from history h indexed by history_of_job
            where h.tenant_id = :tenant_id and h.job_id = w.id and h.end_state is not null
            order by h.run_id desc limit 1)) as queue
from (select substr(:ids, x.key * 16 + 1, 16) as id from json_each(:ids_places) x) w;

-- jobs_of_runs: the jobs of runs in any home
with wanted as materialized (select substr(:ids, x.key * 16 + 1, 16) as id from json_each(:ids_places) x)
select r.id as run_id, r.job_id from wanted w cross join runs r on r.id = w.id and r.tenant_id = :tenant_id
union
select h.run_id, h.job_id from wanted w cross join history h indexed by history_of_tenant
    on h.tenant_id = :tenant_id and h.run_id = w.id
union
select d.run_id, d.job_id from wanted w cross join dead_letters d on d.run_id = w.id and d.tenant_id = :tenant_id;
