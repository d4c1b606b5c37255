-- template harmless
(suspects.job_id = zeroblob(16) and exists (
    select 1 from attempts a
    where a.tenant_id = suspects.tenant_id and a.target = suspects.task and a.at > suspects.died_at and a.tried > 0)
or exists (
    select 1 from (
        select h.attempt_state, h.finished_at from history h
        where h.tenant_id = suspects.tenant_id and h.job_id = suspects.job_id and h.end_state is not null
        order by h.run_id desc limit 5) h
    where h.attempt_state in (AttemptState.SUCCEEDED, AttemptState.FAILED) and h.finished_at > suspects.died_at))
-- end

-- template lanes_of(losses)
join lanes h on h.id = w.home_lane
join lanes c on c.id = abs(w.lane_id)
join lanes t on t.tenant_id = h.tenant_id and t.queue = h.queue and t.tier = h.tier and t.task = h.task
    and t.keyed = h.keyed and t.trial = min({losses}, 3) and t.awake
-- end

-- suspect_jobs: count the workers that a recurring job has lost; returns how many it has in a row. What has come to an end
-- since the loss before begins anew
insert into suspects (tenant_id, task, job_id, losses, lost_at, died_at)
select :tenant_id, :task, j.id, :losses, :now, :died_at from jobs j where j.id = :job_id and j.recurring
on conflict (tenant_id, task, job_id) do update
set losses = min(1000, iif({harmless}, 0, losses) + excluded.losses), lost_at = excluded.lost_at,
    died_at = max(died_at, excluded.died_at)
returning job_id, losses;

-- suspect_tasks: count the workers that a task has lost in a row, and at least as many as something of it has. What started
-- before the loss before was noticed may have died of the same; what has come to an end since begins anew
insert into suspects (tenant_id, task, job_id, losses, lost_at, died_at)
values (:tenant_id, :task, zeroblob(16), :losses, :now, :died_at)
on conflict (tenant_id, task, job_id) do update
set (losses, lost_at, died_at) = (
    select n.losses, iif(n.losses = n.before, suspects.lost_at, excluded.lost_at), max(suspects.died_at, excluded.died_at)
    from (
        select b.losses as before,
            max(min(1000, b.losses + (:started_at >= suspects.lost_at)), excluded.losses) as losses
        from (select iif({harmless}, 0, suspects.losses) as losses) b) n);

-- clear_suspects: forget jobs and tasks of which an attempt has come to its end since, and what was long ago
delete from suspects
where lost_at > :now
    or lost_at < :now - case when job_id = zeroblob(16) then :forget_tasks else :forget_jobs end
    or {harmless}
returning tenant_id, job_id;

-- put_on_trial: move waiting runs to the trial lanes that their jobs are due, all or those of some jobs. Those that were
-- lost themselves may be tried with more care already, and one that has failed has shown that it kills no worker
update runs
set lane_id = sign(lane_id) * x.lane, ready_at = max(ready_at, :now)
from (
    select w.id, t.id as lane
    from suspects s cross join runs w on w.tenant_id = s.tenant_id and w.job_id = s.job_id
        and w.worker_id is null and w.lane_id is not null
    {lanes_of: s.losses}
    where c.id <> t.id and (w.fence = 0 or c.trial < t.trial and (c.trial > Trial.NONE or w.attempt = 0))
        and (:job_ids is null
            or s.job_id in (select substr(:job_ids, x.key * 16 + 1, 16) from json_each(:job_ids_places) x))
) x
where runs.id = x.id;

-- take_off_trial: move waiting runs of a job that is not suspected any more to where their own losses put them
update runs
set lane_id = sign(lane_id) * x.lane, ready_at = max(ready_at, :now)
from (
    select w.id, t.id as lane
    from runs w
    {lanes_of: w.lost}
    where w.tenant_id = :tenant_id and w.job_id = :job_id and w.worker_id is null and w.lane_id is not null
        and c.trial > t.trial
) x
where runs.id = x.id;
