-- wake_lanes: wake a lane, or create it
insert into lanes (tenant_id, queue, tier, task, trial, keyed, awake, changed_at)
values (:tenant_id, :queue, :tier, :task, :trial, :keyed, 1, :now)
on conflict (tenant_id, queue, tier, task, trial, keyed) do update set awake = 1, changed_at = excluded.changed_at;

-- put_lane_change: a lane woke
insert into lane_changes (lane_id, awake, at) values (:lane_id, 1, :now);

-- find_lanes: the lane with this key, whether it is awake, and since when
select id, awake, changed_at from lanes where tenant_id = :tenant_id and queue = :queue and tier = :tier
    and task = :task and trial = :trial and keyed = :keyed;

-- lanes_by_id: the key of a lane, awake or not
select id, tenant_id, queue, tier, task, trial, keyed from lanes where id = :id;

-- lanes_used: how many lanes a tenant has used since a moment, up to a number
select count(*) from (
    select 1 from lanes where tenant_id = :tenant_id and (awake or changed_at > :after) limit :most);

-- queue_limit: the tenant's limit on queues
select quotas ->> '$.queues' from tenants where id = :tenant_id;

-- queues_used: how many of these queues are new, and how many the tenant has used since a moment
select (
    select count(*) from json_each(:names) n
    where not exists (select 1 from queue_names q where q.tenant_id = :tenant_id and q.name = n.value)), (
    select count(distinct q.name) from queue_names q
    where q.tenant_id = :tenant_id and (q.seen_at is null or q.seen_at > :after));

-- newest_lane_change: the position from which a reader of all awake lanes continues
select max(turn) from lane_changes;

-- awake_lanes: the lanes that are awake
select id, tenant_id, queue, tier, task, trial, keyed from lanes where awake order by id;

-- lane_changes: which lanes woke or fell asleep, from a turn on
select c.turn, c.awake, c.lane_id, l.tenant_id, l.queue, l.tier, l.task, l.trial, l.keyed
from lane_changes c left join lanes l on l.id = c.lane_id where c.turn >= :turn order by c.turn;

-- quiet_lanes: lanes that woke long ago, and whether runs wait in them, or will: new runs of suspects go to lanes on trial
select l.id, exists (select 1 from runs r where r.lane_id = l.id and r.worker_id is null)
    or exists (select 1 from runs r where r.lane_id = -l.id and r.worker_id is null)
    or l.trial > Trial.NONE and exists (select 1 from suspects s where s.tenant_id = l.tenant_id and s.task = l.task)
from lanes l where l.awake and l.changed_at <= :before limit :most;

-- keep_lane: a lane is in use, and is not checked again for a while
update lanes set changed_at = :until where id = :id;

-- lanes_of_runs: the lanes that runs stand in, or come from
select home_lane from runs union select abs(lane_id) from runs where lane_id is not null;

-- rest_lanes: a lane falls asleep
update lanes set awake = 0, changed_at = :now where id = :id;
insert into lane_changes (lane_id, awake, at) values (:id, 0, :now);

-- tidy_lanes: remove changes that all readers have read
delete from lane_changes where at < :before and turn < (select max(turn) from lane_changes);

-- wake_used_lanes: wake lanes that are asleep although they have runs
with recursive used (lane_id) as (
    select min(lane_id) from runs where lane_id > 0 and worker_id is null
    union all
    select (select min(r.lane_id) from runs r where r.lane_id > u.lane_id and r.worker_id is null)
    from used u where u.lane_id is not null
)
update lanes set awake = 1, changed_at = :now where not awake and id in (select lane_id from used) returning id;
