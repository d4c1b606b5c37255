-- find_meta: a fact that all nodes share, locked against other nodes
select value from duetime.meta where name = :name for update;

-- put_meta: store a fact that all nodes share
insert into duetime.meta (name, value) values (:name, :value) on conflict (name) do update set value = excluded.value;

-- read_meta: a fact that all nodes share, as it is
select value from duetime.meta where name = :name;
