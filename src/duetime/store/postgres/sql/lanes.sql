-- wake_lanes: wake lanes, and create missing ones within the tenants' limits
select duetime.wake_lanes($1::int[], $2::text[], $3::smallint[], $4::text[], $5::smallint[], $6::boolean[], $7::int);

-- unusable_lanes: which of these lanes a run must not be stored in
select duetime.unusable_lanes($1::int[], $2::bigint[]);

-- unusable_for_new_work: the same for new work of these tenants, which is refused unless they are active
select duetime.unusable_lanes($1::int[], $2::bigint[])
where (
    select bool_and(t.state = TenantState.ACTIVE or duetime.refuse_submission(t.state)) from duetime.tenants t
    where t.id = any($3::int[])) is not false;

-- find_lanes: the lanes with these keys that are awake
select l.id, l.nonce, l.tenant_id, l.queue, l.tier, l.task, l.trial, l.keyed
from unnest($1::int[], $2::text[], $3::smallint[], $4::text[], $5::smallint[], $6::boolean[])
    as x(tenant_id, queue, tier, task, trial, keyed)
cross join lateral (
    select * from duetime.lanes l where l.tenant_id = x.tenant_id and l.queue = x.queue and l.tier = x.tier
        and l.task = x.task and l.trial = x.trial and l.keyed = x.keyed
        and coalesce(l.awake, false) and l.closing is null limit 1) l;

-- lanes_by_id: the keys of these lanes, awake or not
select l.id, l.tenant_id, l.queue, l.tier, l.task, l.trial, l.keyed
from duetime.lanes l where l.id = any($1::int[]);

-- newest_lane_change: the position from which a reader of all awake lanes continues
select turn, nonce from duetime.lane_changes order by turn desc limit 1;

-- awake_lanes: the lanes that are awake
select id, nonce, tenant_id, queue, tier, task, trial, keyed from duetime.lanes where awake order by id;

-- lane_changes: which lanes woke or fell asleep, from a turn on
select c.turn, c.nonce, c.awake, l.id, l.nonce, l.tenant_id, l.queue, l.tier, l.task, l.trial, l.keyed
from duetime.lane_changes c left join lateral (select * from duetime.lanes l where l.id = c.lane_id offset 0) l on true
where c.turn >= $1 order by c.turn;

-- tidy_lanes: let lanes without runs fall asleep; returns how many
select duetime.tidy_lanes($1::interval, $2::int);

-- wake_used_lanes: wake lanes that are asleep although they have runs; returns how many
select duetime.wake_used_lanes();
