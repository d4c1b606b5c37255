-- template harmless
(s.job_id = '00000000-0000-0000-0000-000000000000' and exists (
    select 1 from duetime.attempts a
    where a.tenant_id = s.tenant_id and a.target = s.task and a.at > s.died_at and a.tried > 0)
or exists (
    select 1 from (
        select h.attempt_state, h.finished_at from duetime.history h
        where h.tenant_id = s.tenant_id and h.job_id = s.job_id and h.end_state is not null
            and h.finished_at > s.died_at - interval '10 minutes'
        order by h.run_id desc limit 5) h
    where h.attempt_state in (AttemptState.SUCCEEDED, AttemptState.FAILED) and h.finished_at > s.died_at))
-- end

-- template to_lane(losses, which)
cross join lateral (
    select w.id, t.id as lane from duetime.runs w
    join duetime.lanes h on h.id = w.home_lane
    join duetime.lanes c on c.id = abs(w.lane_id)
    join duetime.lanes t on t.tenant_id = h.tenant_id and t.queue = h.queue and t.tier = h.tier and t.task = h.task
        and t.keyed = h.keyed and t.trial = least({losses}, 3) and t.awake and t.closing is null
    where w.tenant_id = s.tenant_id and w.job_id = s.job_id and w.worker_id is null and w.lane_id is not null and {which}
    for update of w skip locked) o
-- end

-- suspect_jobs: count the workers that recurring jobs have lost; returns how many each has in a row. What has come to an end
-- since the loss before begins anew here, not by `clear_suspects`: nodes lock these rows in one order
insert into duetime.suspects as s (tenant_id, task, job_id, losses, lost_at, died_at)
select x.tenant_id, x.task, x.job_id, x.losses, duetime.clock(), x.died_at
from unnest(:tenant_id::int[], :task::text[], :job_id::uuid[], :losses::int[], :died_at::timestamptz[])
    as x(tenant_id, task, job_id, losses, died_at)
join duetime.jobs j on j.id = any(array[x.job_id]) and j.recurring
order by x.tenant_id, x.task collate "C", x.job_id
on conflict (tenant_id, task, job_id) do update
set losses = least(1000, case when {harmless} then 0 else s.losses end + excluded.losses), lost_at = excluded.lost_at,
    died_at = greatest(s.died_at, excluded.died_at)
returning job_id, losses;

-- suspect_tasks: count the workers that tasks have lost in a row, and at least as many as something of each has. What started
-- before the loss before was noticed may have died of the same; what has come to an end since begins anew
insert into duetime.suspects as s (tenant_id, task, job_id, losses, lost_at, died_at)
select x.tenant_id, x.task, '00000000-0000-0000-0000-000000000000', x.losses, duetime.clock(), x.died_at
from unnest(:tenant_id::int[], :task::text[], :losses::int[], :died_at::timestamptz[]) as x(tenant_id, task, losses, died_at)
order by x.tenant_id, x.task collate "C"
on conflict (tenant_id, task, job_id) do update
set (losses, lost_at, died_at) = (
    select n.losses, case when n.losses = n.before then s.lost_at else excluded.lost_at end,
        greatest(s.died_at, excluded.died_at)
    from (
        select b.losses as before, greatest(excluded.losses, least(1000, b.losses + (
            select (x.started_at >= s.lost_at)::int
            from unnest(:tenant_id::int[], :task::text[], :started_at::timestamptz[]) as x(tenant_id, task, started_at)
            where x.tenant_id = s.tenant_id and x.task = s.task))) as losses
        from (select case when {harmless} then 0 else s.losses end as losses) b) n);

-- clear_suspects: forget jobs and tasks of which an attempt has come to its end since, and what was long ago. Not those
-- that another node counts a loss of at this moment: it may be about to clear what is counted here
delete from duetime.suspects d where d.ctid = any(array(
    select s.ctid from duetime.suspects s
    where s.lost_at > duetime.clock()
        or s.lost_at < duetime.clock()
            - case when s.job_id = '00000000-0000-0000-0000-000000000000' then :forget_tasks::interval else :forget_jobs::interval end
        or {harmless}
    for update skip locked))
returning d.tenant_id, d.job_id;

-- put_on_trial: move waiting runs to the trial lanes that their jobs are due, all or those of some jobs. Those that were lost
-- themselves may be tried with more care already, and one that has failed has shown that it kills no worker. Runs that are
-- there already are not held: a claim would pass over them, and move its mark past them
update duetime.runs r
set lane_id = sign(r.lane_id)::int * x.lane, ready_at = greatest(r.ready_at, duetime.clock())
from (
    select o.id, o.lane
    from duetime.suspects s
    {to_lane: s.losses | c.id <> t.id and (w.fence = 0 or c.trial < t.trial and (c.trial > Trial.NONE or w.attempt = 0))}
    where :job_ids::uuid[] is null or s.job_id = any(:job_ids)
) x
where r.id = any(array[x.id]);

-- take_off_trial: move waiting runs of jobs that are not suspected any more to where their own losses put them
update duetime.runs r
set lane_id = sign(r.lane_id)::int * x.lane, ready_at = greatest(r.ready_at, duetime.clock())
from (
    select o.id, o.lane
    from unnest(:tenant_id::int[], :job_id::uuid[]) as s(tenant_id, job_id)
    {to_lane: w.lost | c.trial > t.trial}
) x
where r.id = any(array[x.id]);
