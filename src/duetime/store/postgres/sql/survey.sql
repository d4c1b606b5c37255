-- waiting_by_tier: due runs that wait, by priority, counted up to a cap
select l.tier, count(*) from (
    select lane_id from duetime.runs
    where lane_id is not null and worker_id is null and ready_at <= duetime.now() limit $1) w
join duetime.lanes l on l.id = w.lane_id group by l.tier;

-- dead_letters_up_to: dead letters, counted up to a cap
select count(*) from (select 1 from duetime.dead_letters limit $1) d;

-- table_figures: each table with about how many rows it has, and its size; partitions together
select coalesce(p.relname, c.relname), sum(greatest(c.reltuples, 0))::bigint, sum(pg_total_relation_size(c.oid))::bigint
from pg_class c join pg_namespace n on n.oid = c.relnamespace
left join pg_inherits i on i.inhrelid = c.oid left join pg_class p on p.oid = i.inhparent
where n.nspname = 'duetime' and c.relkind = 'r' group by 1 order by 1;

-- breakers_by_state: breakers that are not closed; there are few
select state, count(*) from duetime.breakers where state <> 0 group by state;
