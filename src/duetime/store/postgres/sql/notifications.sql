-- lock_notifying: one after the other, so that what follows sees what the one before has done
select 1 from duetime.notifying where one for update;

-- put_subscription: set what a tenant wants to be told
insert into duetime.subscriptions (tenant_id, name, body) values ($1, $2, $3)
on conflict (tenant_id, name) do update set body = excluded.body;

-- list_subscriptions: what a tenant, or everybody, wants to be told
select tenant_id, body from duetime.subscriptions where $1::int is null or tenant_id = $1 order by tenant_id, name;

-- delete_subscription: tell it no more
delete from duetime.subscriptions where tenant_id = $1 and name = $2;

-- listen_for_good: have events written, whether or not a server is up to read them, from now on
with heard as (update duetime.listening set until = 'infinity' where one and until < 'infinity')
update duetime.notifying set number = $1 where one and number is null;

-- listen_no_more: nobody wants to be told any more; whoever watches keeps events coming for himself
with heard as (
    update duetime.listening set until = duetime.now() + interval '5 minutes'
    where one and until = 'infinity' and not exists (select 1 from duetime.subscriptions)
)
update duetime.notifying set number = null
where one and not exists (select 1 from duetime.subscriptions);

-- take_notifying: the place up to which everything was told, for a node that is at it from now on, unless another is
update duetime.notifying set holder = $1, taken_at = duetime.now(), held_until = duetime.now() + $2::interval
where one and number is not null and (holder is null or holder = $1 or held_until <= duetime.now())
returning number;

-- notified: everything up to a place was told
update duetime.notifying set number = $1 where one and number < $1;

-- news_of_runs: what notifications say of the attempts of runs that started, or ended, at a moment; else of how they stand
select r.id, r.job_id, l.task, l.queue, r.attempt, r.due_at, r.started_at, r.first_started_at, null::timestamptz as finished_at,
    null::smallint as failure, null::text as error, r.options
from unnest($2::uuid[]) as wanted(id) join duetime.runs r on r.id = any(array[wanted.id]) and r.tenant_id = $1
join duetime.lanes l on l.id = r.home_lane
where $4::timestamptz is null and ($3::timestamptz is null or r.started_at = $3)
union all
select h.run_id, h.job_id, l.task, l.queue, h.attempt, h.due_at, h.started_at, h.first_started_at, h.finished_at, h.failure,
    left(h.error, 2000), h.options
from unnest($2::uuid[]) as wanted(id) join duetime.history h on h.tenant_id = $1 and h.run_id = wanted.id
    and case when $4 is not null then h.finished_at = $4 when $3 is not null then h.started_at = $3
        else h.end_state is not null end
join duetime.lanes l on l.id = h.lane_id;

-- slow_candidates: running runs of jobs that say how long is usual, and how long they have been running
select r.tenant_id, r.id, r.options, duetime.now() - r.started_at as ran_for
from duetime.claims c cross join lateral (
    select o.* from duetime.runs o
    where o.id = any(c.run_ids) and o.worker_id = c.worker_id and o.claim_no = c.claim_no offset 0) r
where c.claimed_at < duetime.now() - interval '1 second' and r.options is not null
    and position('"warn_after"'::bytea in r.options) > 0;

-- count_dead_letters: how many dead letters a tenant, or a queue of it, has, up to a cap
select count(*) from (
    select 1 from duetime.dead_letters d where d.tenant_id = $1
        and ($2::text is null or (select l.queue from duetime.lanes l where l.id = d.lane_id) = $2) limit $3) d;

-- count_ready: how many runs of a tenant, or of a queue of it, wait and could start now, in each lane up to a cap
select coalesce(sum(w.waiting), 0) from duetime.lanes l cross join lateral (
    select count(*) as waiting from (
        select 1 from duetime.runs r
        where r.lane_id = l.id and r.ready_at <= duetime.now() and r.worker_id is null limit $3) r) w
where l.tenant_id = $1 and l.awake and ($2::text is null or l.queue = $2) and l.queue <> $4;

-- held_slots: how many runs each worker holds
select c.worker_id, count(*) from duetime.claims c cross join lateral (
    select 1 from duetime.runs o
    where o.id = any(c.run_ids) and o.worker_id = c.worker_id and o.claim_no = c.claim_no offset 0) r
group by c.worker_id;

-- put_alert: set a rule; one that says something else begins anew
insert into duetime.alerts (tenant_id, name, rule) values ($1, $2, $3)
on conflict (tenant_id, name) do update set rule = excluded.rule, checked_at = '-infinity', wrong_since = null;

-- list_alerts: a tenant's alerts, or one of them
select tenant_id, rule, open, value, wrong_since, changed_at, checked_at, version
from duetime.alerts where tenant_id = $1 and ($2::text is null or name = $2) order by name;

-- delete_alert: remove a rule
delete from duetime.alerts where tenant_id = $1 and name = $2;

-- take_alerts: alerts whose turn it is, and nobody else's for the next while
update duetime.alerts set checked_at = duetime.now() where (tenant_id, name) in (
    select tenant_id, name from duetime.alerts where checked_at <= duetime.now() - $1::interval
    order by checked_at limit $2 for update skip locked)
returning tenant_id, rule, open, value, wrong_since, changed_at, checked_at, version;

-- keep_alert: how an alert stands, unless somebody else has said so meanwhile, or the rule is another one
update duetime.alerts set open = $4, value = $5, wrong_since = $6, changed_at = $7, version = $8
where tenant_id = $1 and name = $2 and rule = $3 and version = $9;
