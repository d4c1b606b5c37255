-- table_figures: the rows of each home, up to a cap; history by its first and last row
select 'dead_letters' as name, (select count(*) from (select 1 from dead_letters limit :cap)) as rows, null as size
union all select 'history', coalesce((select max(rowid) from history) - (select min(rowid) from history) + 1, 0), null
union all select 'jobs', (select count(*) from (select 1 from jobs limit :cap)), null
union all select 'runs', (select count(*) from (select 1 from runs limit :cap)), null;

-- database_size: the size of the file, in bytes
select c.page_count * s.page_size as size from pragma_page_count() c, pragma_page_size() s;
