-- facts: what a filled database knows about itself; by which filling, when it is done
create schema filled;
create table filled.facts (stored bigint, first_ms bigint, filled_at timestamptz, filling text);
create table filled.kinds (kind int generated always as identity, schedule bytea, options bytea);
-- The id of the job with this number: time-ordered, ten of them in a millisecond, and always the same.
create function filled.job_id(number bigint, first_ms bigint) returns uuid language sql immutable as $$
    select (lpad(to_hex(first_ms + number / 10), 12, '0') || '7' || substr(md5(number::text), 1, 3)
        || '8' || substr(md5(number::text), 4, 15))::uuid $$;
-- Whose it is: the first tenant has an eleventh of all, the others have the rest in turn.
create function filled.tenant(number bigint) returns int language sql immutable as $$
    select (case when number / 2 % 11 = 0 then 1 else 2 + (number / 2 - number / 22 - 1) % 999 end)::int $$;
-- How many pairs of jobs its tenant has before it.
create function filled.place(number bigint) returns bigint language sql immutable as $$
    select case when number / 2 % 11 = 0 then number / 22 else (number / 2 - number / 22 - 1) / 999 end $$;

-- tenants: a thousand of them, each with a lane for what is stored
insert into duetime.tenants (name)
select 'tenant-' || n from generate_series(2, 1000) n;

-- lanes: one for each tenant and task
insert into duetime.lanes (tenant_id, queue, tier, task, awake)
select t.id, 'default', 1, x.task, true from duetime.tenants t cross join (values ('report'), ('digest')) as x(task)
on conflict do nothing;
analyze duetime.lanes, filled.kinds;

-- jobs: the numbers from $1 to $2: even ones recur, odd ones run once
insert into duetime.jobs (id, tenant_id, task, queue, tier, schedule, recurring, args, options, created_at)
select filled.job_id(n, f.first_ms), filled.tenant(n),
    case when n % 2 = 1 and n % 101 = 0 then 'digest' else 'report' end, 'default', 1,
    case when n % 2 = 0 then k.schedule else convert_to(json_build_object('type', 'once', 'at', to_char(
        (f.filled_at + interval '30 days' + (n * 7919 % 2592000) * interval '1 second') at time zone 'UTC',
        'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text, 'UTF8') end,
    n % 2 = 0, $3, case when n % 2 = 0 and filled.place(n) % 5 = 0 then k.options end, f.filled_at
from generate_series($1::bigint, $2::bigint) n
cross join filled.facts f
join filled.kinds k on k.kind = 1 + (n / 2) % (select count(*) from filled.kinds);

-- cursors: when they fire next: between a month and two from when they were filled
insert into duetime.cursors (job_id, scan_at, next_fire_at)
select filled.job_id(n, f.first_ms), x.at - interval '15 seconds', x.at
from generate_series($1::bigint, $2::bigint) n cross join filled.facts f
cross join lateral (
    select f.filled_at + interval '30 days' + (n * 7919 % 2592000) * interval '1 second' as at) x;

-- labels: what one in ten is found by, in the hands of every tenant
insert into duetime.labels (tenant_id, kind, value, job_id)
select filled.tenant(n), l.kind::"char", l.value, filled.job_id(n, f.first_ms)
from generate_series((($1 + 1) / 2 * 2)::bigint, $2::bigint, 2) n
cross join filled.facts f
join filled.kinds k on k.kind = 1 + (n / 2) % (select count(*) from filled.kinds)
cross join lateral (
    select 'o' as kind, convert_from(k.options, 'UTF8')::json ->> 'owner' as value
    union all
    select 't', json_array_elements_text(convert_from(k.options, 'UTF8')::json -> 'tags')
    union all
    select 'n', 'name-' || filled.place(n) / 5 % 20
    union all
    select 'k', 'key-' || filled.place(n) / 5) l
where filled.place(n) % 5 = 0
on conflict do nothing;

-- history: the rows from $1 to $2 of $4, over twenty days; one in 100 failed, one in 3 is of a job that ran once
insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
    failure, due_at, ready_at, started_at, finished_at, args, error)
select (x.began || '8' || x.tail)::uuid,
    case when n % 3 = 0 then (x.began || '7' || x.tail)::uuid else filled.job_id(x.job, f.first_ms) end,
    t.tenant, l.id, 1, 1, 0, case when n % 100 = 0 then 2 else 1 end,
    case when n % 100 = 0 then 5 else 4 end, case when n % 100 = 0 then 1 end,
    x.at, x.at, x.at + interval '4 ms', x.at + interval '9 ms', $3,
    case when n % 100 = 0 then ($5::text[])[1 + n / 100 % cardinality($5::text[])] || n end
from generate_series($1::bigint, $2::bigint) n
cross join filled.facts f
cross join lateral (
    select f.filled_at - interval '20 days' + n * (interval '20 days' / $4::float8) as at) w
cross join lateral (
    select w.at, 2 * (n * 7919 % (f.stored / 2)) as job,
        lpad(to_hex((extract(epoch from w.at) * 1000)::bigint), 12, '0') as began,
        substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15) as tail) x
cross join lateral (
    select filled.tenant(x.job) as tenant, case when n % 303 = 0 then 'digest' else 'report' end as task) t
join duetime.lanes l on l.tenant_id = t.tenant and l.task = t.task and l.queue = 'default' and l.trial = 0;

-- graphs: one for 200 jobs, over like their nodes; a list of graphs reads no nodes
insert into duetime.graphs (id, tenant_id, name, nodes, unended, created_at, ended_at, status)
select (lpad(to_hex((extract(epoch from f.filled_at) * 1000)::bigint - n), 12, '0') || '7' || substr(md5(n::text), 1, 3)
        || '8' || substr(md5(n::text), 4, 15))::uuid,
    filled.tenant(n), 'graph-' || n, 3, 0, f.filled_at - n * interval '1 ms', f.filled_at, 'SUCCEEDED'
from generate_series((($1 + 199) / 200 * 200)::bigint, $2::bigint, 200) n cross join filled.facts f;

-- audit: what was done with one job in a hundred
insert into duetime.audit (id, at, tenant_id, actor, action, object)
select (lpad(to_hex((extract(epoch from f.filled_at) * 1000)::bigint - n), 12, '0') || '7' || substr(md5(n::text), 1, 3)
        || '8' || substr(md5(n::text), 4, 15))::uuid,
    f.filled_at - n * interval '1 ms', filled.tenant(n), 'somebody', 'job.paused', filled.job_id(n, f.first_ms)::text
from generate_series((($1 + 99) / 100 * 100)::bigint, $2::bigint, 100) n cross join filled.facts f;

-- dead_letters: those of history that failed, told apart by what the errors $1 begin with
insert into duetime.dead_letters (run_id, job_id, tenant_id, lane_id, attempt, lost, failure, error, due_at, died_at, args,
    fingerprint)
select run_id, job_id, tenant_id, lane_id, attempt, lost, failure, error, due_at, finished_at, args,
    (select e.fingerprint from unnest($1::text[], $2::text[]) as e(error, fingerprint) where starts_with(h.error, e.error))
from duetime.history h where end_state = 5 and args is not null
on conflict do nothing;

-- done: it is filled, by this filling
update filled.facts set filling = $1;

-- sample: ids of recurring jobs, as many as are asked for, spread over all that are stored; others behind another offset
select filled.job_id(2 * (n * 104729 % (f.stored / 2)), f.first_ms)
from generate_series($2::bigint + 1, $2::bigint + $1::bigint) n cross join filled.facts f;

-- due: the cursors of these jobs, moved to a moment
update duetime.cursors
set next_fire_at = $2, scan_at = greatest($2::timestamptz - interval '15 seconds', clock_timestamp()), last_fire_at = null
where job_id = any($1::uuid[]);

-- undue: whatever fires within the next weeks fires in a month
update duetime.cursors
set next_fire_at = now() + interval '30 days', scan_at = now() + interval '30 days' - interval '15 seconds', last_fire_at = null
where scan_at < now() + interval '25 days';

-- make_aside: where options are kept that a scenario changes
create table if not exists filled.set_aside (job_id uuid primary key, options bytea);

-- set_aside: remember the options of these jobs, which are about to be changed
insert into filled.set_aside (job_id, options)
select id, options from duetime.jobs where id = any($1::uuid[]) on conflict (job_id) do nothing;

-- add_jitter: let these jobs fire up to so many seconds later, and say what else they said
update duetime.jobs
set options = convert_to((coalesce(convert_from(options, 'UTF8')::jsonb, '{}')
    || jsonb_build_object('jitter', $2::float8))::text, 'UTF8')
where id = any($1::uuid[]);

-- put_back: the options that were set aside, also those of a run that was broken off
with back as (delete from filled.set_aside returning job_id, options)
update duetime.jobs j set options = b.options from back b where j.id = b.job_id;

-- hire: a worker that is alive for a day
insert into duetime.workers (id, name, tasks, queues, slots, started_at, lease_until)
values ($1, 'bench', '{report,digest}', '{}', 10000, now(), now() + interval '1 day');

-- run: let this worker run these jobs, with claims of 500
with held as (
    insert into duetime.runs (id, job_id, tenant_id, lane_id, home_lane, fence, attempt, claim_no, worker_id, due_at,
        ready_at, started_at, args)
    select (lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0') || '8' || substr(md5(j.id::text), 1, 3)
            || '8' || substr(md5(j.id::text), 4, 15))::uuid,
        j.id, j.tenant_id, l.id, l.id, 1, 1, 1 + row_number() over () / 500, $1, now(), now(), now(), j.args
    from duetime.jobs j
    join duetime.lanes l on l.tenant_id = j.tenant_id and l.task = j.task and l.queue = 'default' and l.trial = 0
    where j.id = any($2::uuid[])
    returning id, claim_no)
insert into duetime.claims (worker_id, claim_no, claimed_at, run_ids)
select $1, claim_no, now(), array_agg(id) from held group by claim_no;

-- dismiss: this worker is gone
delete from duetime.workers where id = $1;
