-- The search index: terms by the groups of three characters that they contain.

-- Each group carries its tenant, so that a search reads only entries of its own tenant.
create or replace function duetime.grams_of(tenant integer, grams text) returns text[] language sql immutable
set search_path = pg_catalog, pg_temp
as $$ select array_agg(tenant || ':' || g) from unnest(string_to_array(grams, chr(31))) as t(g) $$;

-- The operator of the index is not leakproof, so row-level security would keep the planner from using it: the tenant is a
-- condition here. The index reads all entries of each group before it finds a term: a third of a second for a word that
-- is in a million names. A sample tells such a word at once, and the answer is then a row without a kind.
create or replace function duetime.find_terms(wanted text, most integer) returns table (kind text, value text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    groups constant text[] := duetime.grams_of(duetime.current_tenant(), wanted);
    all_pages integer;
    all_terms real;
    sampled integer;
    found integer;
begin
    select relpages, reltuples into all_pages, all_terms from pg_class where oid = 'duetime.terms'::regclass;
    if all_terms > 10 * most then
        select count(*), count(*) filter (where t.grams @> groups) into sampled, found
        from duetime.terms t tablesample system (least(100, 2000.0 / all_pages));  -- 20 pages
        if found >= 20 and found * all_terms > 5.0 * most * sampled then
            return query select null::text, null::text;
            return;
        end if;
    end if;
    return query
    select t.kind::text, t.value from duetime.terms t
    where t.grams @> groups and t.tenant_id = duetime.current_tenant() limit most;
end $$;
revoke execute on function duetime.find_terms from public;
grant execute on function duetime.find_terms to duetime_tenant;

create or replace function duetime.labelled_with_any(
    tenant integer, kinds text[], vals text[], before uuid, most integer) returns setof uuid
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    return query
    select distinct l.job_id from unnest(kinds, vals) as w(kind, value) cross join lateral (
        select l.job_id from duetime.labels l
        where l.tenant_id = any (array[tenant]) and l.kind = w.kind::"char" and l.value = w.value and l.job_id < before
        order by l.tenant_id desc, l.kind desc, l.value desc, l.job_id desc limit most) l
    order by l.job_id desc limit most;
end $$;
