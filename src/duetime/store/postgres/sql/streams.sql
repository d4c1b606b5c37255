-- end_carried: end carried runs as SUCCEEDED; returns those that were spent before
select duetime.end_carried($1::uuid[], $2::uuid[], $3::int[], $4::bigint[], $5::int[], $6::bytea[],
    $7::bytea[], $8::int[], $9::bigint[], $10::bytea[], $11::bytea[], $12, $13::int[], $14::bigint[], $15::int[], $16::text[],
    $17::text[], $18::int[], $19::uuid[]);

-- land: store carried runs; returns when, and the stored ones
select duetime.stamp(l.at), l.stored
from duetime.land($1::uuid[], $2::uuid[], $3::int[], $4::bigint[], $5::int[], $6::bytea[], $7::bytea[], $8::int[],
    $9::int[], $10::bigint[], $11::int[], $12, $13::uuid[], $14::bigint[], $15, $16::int[], $17::bigint[], $18::int[],
    $19::text[], $20::text[], $21::int[], $22::uuid[]) l;

-- find_homes: the lanes with these keys that history may refer to
select l.id, l.nonce, l.tenant_id, l.queue, l.tier, l.task, l.trial, l.keyed
from unnest($1::int[], $2::text[], $3::smallint[], $4::text[], $5::smallint[], $6::boolean[])
    as x(tenant_id, queue, tier, task, trial, keyed)
cross join lateral (
    select * from duetime.lanes l where l.tenant_id = x.tenant_id and l.queue = x.queue and l.tier = x.tier
        and l.task = x.task and l.trial = x.trial and l.keyed = x.keyed
        and (l.awake or l.changed_at > duetime.now() - interval '1 day') limit 1) l;

-- forget_spent: days before this one are never remembered again
insert into duetime.meta as m (name, value) values ($1, $2)
on conflict (name) do update set value = greatest(m.value, excluded.value);

-- lock_queue: one transaction at a time decides whether a queue has limits or goes through a stream
select pg_advisory_xact_lock(hashtextextended('duetime queue ' || :tenant_id::int || ' ' || :queue::text, 0)) is null as known;

-- is_streamed: whether a queue goes through a stream
select duetime.is_streamed(:queue) as known;

-- spent_days: the time, and the days whose ids act
select duetime.clock(), duetime.spent_days();
