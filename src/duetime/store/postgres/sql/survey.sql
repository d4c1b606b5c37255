-- table_figures: the approximate rows and the size of each table; partitions count together
select coalesce(p.relname, c.relname) as name, sum(greatest(c.reltuples, 0))::bigint as rows,
    sum(pg_total_relation_size(c.oid))::bigint as size
from pg_class c join pg_namespace n on n.oid = c.relnamespace
left join pg_inherits i on i.inhrelid = c.oid left join pg_class p on p.oid = i.inhparent
where n.nspname = 'duetime' and c.relkind = 'r' group by 1 order by 1;

-- database_size: the size of all tables, in bytes
select sum(pg_total_relation_size(c.oid))::bigint as size
from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'duetime' and c.relkind = 'r';
