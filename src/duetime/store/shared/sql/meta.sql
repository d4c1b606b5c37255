-- find_meta: something that all nodes know, held against other nodes
select value from duetime.meta where name = :name for update;

-- put_meta: let all nodes know something
insert into duetime.meta (name, value) values (:name, :value) on conflict (name) do update set value = excluded.value;
