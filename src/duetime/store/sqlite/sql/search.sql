-- put_terms: add terms that are not there yet
insert into terms (tenant_id, kind, value, folded) values (:tenant_id, :kind, :value, :folded)
on conflict (tenant_id, kind, value) do nothing;

-- drop_terms: remove those of some terms that no job has any more
delete from terms where tenant_id = :tenant_id and kind = :kind and value = :value and not exists (
    select 1 from labels l where l.tenant_id = :tenant_id and l.kind = :kind and l.value = :value);

-- find_terms: terms of a tenant that contain all these groups of characters
select t.kind, t.value from term_grams cross join terms t on t.id = term_grams.rowid
where term_grams match :phrases and t.tenant_id = :tenant_id limit :most;

-- list_found: jobs with any of these labels, newest first; without the table `v`, each kind would read all values
with v as materialized (select key, value from json_each(:values))
select distinct l.job_id from json_each(:kinds) k cross join v on v.key = k.key
cross join labels l on l.tenant_id = :tenant_id and l.kind = k.value and l.value = v.value and l.job_id < :before
order by l.job_id desc limit :bound;
