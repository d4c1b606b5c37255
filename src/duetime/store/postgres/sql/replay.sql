-- mark_deleted: hide a job from now on
insert into duetime.deleted_jobs (job_id, tenant_id, deleted_at) values ($2, $1, duetime.now()) on conflict do nothing;

-- forget_key: let go of the key of a job that is deleted
delete from duetime.keys where tenant_id = $1 and kind = 'k' and key = $3 and job_id = $2;

-- ready_now: let a run that waits for its next try start now
update duetime.runs set ready_at = duetime.clock()
where tenant_id = $1 and id = $2 and worker_id is null and lane_id is not null and (attempt > 0 or lost > 0)
    and ready_at > duetime.clock();

-- ended_run: the end of a run, as history has it
select job_id, lane_id, end_state, args, options, timeout_ms from duetime.history
where tenant_id = $1 and run_id = $2 and end_state is not null;

-- what_job_says: what a run of a stored job is made of
select id as job_id, task, queue, tier, args, options, timeout_ms from duetime.jobs where tenant_id = $1 and id = $2;

-- lock_dead_letter: a dead letter, held against others who repeat it
select job_id, lane_id, args, options, timeout_ms from duetime.dead_letters
where tenant_id = $1 and run_id = $2 for update;

-- lock_dead_letters: dead letters that match, oldest first, held; those that others hold are passed over
select d.run_id, d.job_id, d.lane_id, d.args, d.options, d.timeout_ms
from duetime.dead_letters d join duetime.lanes n on n.id = d.lane_id
where d.tenant_id = $1 and ($2::uuid is null or d.run_id = $2) and ($3::uuid is null or d.job_id = $3)
    and ($4::text is null or n.task = $4) and ($5::text is null or n.queue = $5)
    and ($6::smallint is null or d.failure = $6)
    and ($7::timestamptz is null or d.died_at >= $7) and ($8::timestamptz is null or d.died_at < $8)
    and ($9::text is null or strpos(d.error, $9) > 0) and ($12::text is null or d.fingerprint = $12)
    and ($11 or not exists (select 1 from duetime.deleted_jobs x where x.job_id = d.job_id))
order by d.run_id limit $10 for update of d skip locked;

-- remove_dead_letters: dead letters that are none any more
delete from duetime.dead_letters where tenant_id = $1 and run_id = any($2::uuid[]);

-- repeat_runs: make runs in place of others that are over
with made as (
    insert into duetime.runs (id, job_id, tenant_id, lane_id, home_lane, due_at, ready_at, args, options, timeout_ms,
        manual, followed)
    select x.id, x.job_id, $1, x.lane, x.lane, x.due_at, greatest(x.ready_at, duetime.clock()), x.args, x.options,
        x.timeout_ms, true, exists (select 1 from duetime.jobs j where j.id = x.job_id and j.followed)
            or exists (select 1 from duetime.nodes n where n.job_id = x.job_id)
    from unnest($2::uuid[], $3::uuid[], $4::int[], $5::timestamptz[], $6::timestamptz[], $7::bytea[], $8::bytea[],
                $9::int[]) as x(id, job_id, lane, due_at, ready_at, args, options, timeout_ms)
    on conflict (id) do nothing
    returning id
)
insert into duetime.events (at, kind, tenant_id, ids)
select duetime.now(), 2, $1, array_agg(m.id) from made m
where (select l.until > duetime.now() from duetime.listening l where l.one) having count(*) > 0;

-- lock_repeat: hold a run that is over against others who would repeat it
select pg_advisory_xact_lock(hashtextextended('duetime r ' || :tenant_id::int || ' ' || :key::text, 0));
