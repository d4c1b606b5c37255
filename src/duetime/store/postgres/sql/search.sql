-- put_terms: add terms that are not there yet
insert into duetime.terms (tenant_id, kind, value, grams)
select t.tenant_id, t.kind::"char", t.value, duetime.grams_of(t.tenant_id, t.grams)
from unnest(:tenant_id::int[], :kind::text[], :value::text[], :grams::text[]) as t(tenant_id, kind, value, grams)
on conflict do nothing;

-- drop_terms: remove those of some terms that no job has any more
delete from duetime.terms t using unnest(:tenant_id::int[], :kind::text[], :value::text[]) as w(tenant_id, kind, value)
where t.tenant_id = w.tenant_id and t.kind = w.kind::"char" and t.value = w.value
    and (select 1 from duetime.labels l where l.tenant_id = w.tenant_id and l.kind = w.kind::"char" and l.value = w.value
        limit 1) is null;

-- find_terms: terms of a tenant that contain all these groups of characters; a row without a kind if there are too many
select kind, value from duetime.find_terms(:grams, :most);

-- list_found: jobs with any of these labels, newest first
select f.job_id from duetime.labelled_with_any(:tenant_id, :kinds::text[], :values::text[], :before, :bound) as f(job_id)
order by f.job_id desc;
