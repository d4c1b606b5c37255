-- Rates: runs that wait for their moment, and tokens of requests.

-- Assign free moments of rates to waiting runs, in order.
create or replace function duetime.schedule_rate_queues(ids bigint[], ats timestamptz[], intervals interval[], most integer)
returns bigint language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    given bigint;
begin
    with held as materialized (
        select r.id, r.ready_at, x.at, x.step, x.limit_id
        from unnest(ids, ats, intervals) as x(limit_id, at, step) cross join lateral (
            select n.id, n.ready_at from duetime.runs n
            where n.put_off_by = x.limit_id and n.ready_at > duetime.now() and n.lane_id > 0 and n.worker_id is null
            order by n.ready_at, n.id limit most for update skip locked
        ) r
    ),
    laid as materialized (
        select h.id, h.at + (row_number() over (partition by h.limit_id order by h.ready_at, h.id) - 1) * h.step as at
        from held h
    )
    update duetime.runs r set ready_at = greatest(l.at, duetime.clock()) from laid l where r.id = l.id;
    get diagnostics given = row_count;
    return given;
end $$;

-- Make runs that wait for a rate claimable again, the first ones first.
create or replace function duetime.release_rate_queue(of_limit bigint, most integer) returns bigint language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    given bigint;
begin
    update duetime.runs r set ready_at = duetime.clock(), put_off_by = null
    where r.id = any(array(
        select n.id from duetime.runs n
        where n.put_off_by = of_limit and n.ready_at > duetime.now() and n.lane_id > 0 and n.worker_id is null
        order by n.ready_at, n.id limit most for update skip locked));
    get diagnostics given = row_count;
    return given;
end $$;

-- Take tokens by the rules of `model/token_bucket.py`. The time is read after the row is locked, so that two concurrent
-- callers do not count the same interval. Buckets are locked in the order of their keys.
create or replace function duetime.take_tokens(tenants integer[], keys uuid[], rates float8[], sizes float8[],
    needs integer[], wants integer[], backs integer[], out given integer[], out levels float8[]) language plpgsql
set enable_seqscan = off set jit = off
as $$
declare
    i integer;
    moment timestamptz;
    held double precision;
    since timestamptz;
    got integer;
begin
    perform set_config('synchronous_commit', 'off', true);
    given := array_fill(0, array[cardinality(tenants)]);
    levels := array_fill(0::float8, array[cardinality(tenants)]);
    for i in select x.n from unnest(tenants, keys) with ordinality as x(tenant, key, n) order by x.tenant, x.key, x.n loop
        loop
            select b.level, b.filled_at into held, since from duetime.token_buckets b
                where b.tenant_id = tenants[i] and b.key_id = keys[i] for update;
            exit when found;
            insert into duetime.token_buckets (tenant_id, key_id, level, filled_at, full_at)
                values (tenants[i], keys[i], sizes[i], duetime.clock(), duetime.clock()) on conflict do nothing;
        end loop;
        moment := duetime.clock();
        held := least(sizes[i],
            held + greatest(0, extract(epoch from moment - since)::float8) * rates[i] + backs[i]);
        got := 0;
        if held + 0.000001 >= least(needs[i], sizes[i]) then
            got := greatest(needs[i], least(wants[i], floor(held + 0.000001)::integer));
        end if;
        held := held - got;
        update duetime.token_buckets b set level = held, filled_at = moment,
            full_at = moment + least(8000000, (sizes[i] - held) / rates[i]) * interval '1 second'
            where b.tenant_id = tenants[i] and b.key_id = keys[i];
        given[i] := got;
        levels[i] := held;
    end loop;
end $$;
