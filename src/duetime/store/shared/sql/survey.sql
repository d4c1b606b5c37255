-- waiting_by_tier: due runs that wait, by priority, counted up to a cap
select l.tier, count(*) as count from (
    select lane_id from duetime.runs
    where lane_id is not null and worker_id is null and ready_at <= duetime.now() limit :cap) w
join duetime.lanes l on l.id = w.lane_id group by l.tier;

-- dead_letters_up_to: dead letters, counted up to a cap
select count(*) as count from (select 1 from duetime.dead_letters limit :cap) d;

-- breakers_by_state: breakers that are not closed; there are few
select state, count(*) as count from duetime.breakers where state <> BreakerState.CLOSED group by state;
