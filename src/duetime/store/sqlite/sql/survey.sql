-- waiting_by_tier: due runs that wait, by priority, counted up to a cap
select l.tier, count(*) from (
    select lane_id from runs
    where lane_id is not null and worker_id is null and ready_at <= :now limit :cap) w
join lanes l on l.id = w.lane_id group by l.tier;

-- dead_letters_up_to: dead letters, counted up to a cap
select count(*) from (select 1 from dead_letters limit :cap);

-- table_figures: each home with how many rows it has, up to a cap; history by its first and last row
select 'dead_letters', (select count(*) from (select 1 from dead_letters limit :cap))
union all select 'history', coalesce((select max(rowid) from history) - (select min(rowid) from history) + 1, 0)
union all select 'jobs', (select count(*) from (select 1 from jobs limit :cap))
union all select 'runs', (select count(*) from (select 1 from runs limit :cap));

-- database_size: the size of the file, in bytes
select c.page_count * s.page_size from pragma_page_count() c, pragma_page_size() s;

-- breakers_by_state: breakers that are not closed; there are few
select state, count(*) from breakers where state <> 0 group by state;
