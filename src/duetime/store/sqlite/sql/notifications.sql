-- put_subscription: set what a tenant wants to be told
insert into subscriptions (tenant_id, name, body) values (:tenant_id, :name, :body)
on conflict (tenant_id, name) do update set body = excluded.body;

-- list_subscriptions: what a tenant, or everybody, wants to be told
select tenant_id, body from subscriptions where :tenant_id is null or tenant_id = :tenant_id order by tenant_id, name;

-- delete_subscription: tell it no more
delete from subscriptions where tenant_id = :tenant_id and name = :name;

-- listen_for_good: have events written, whether or not a server is up to read them, from now on
update listening set until = 9223372036854775807 where one = 1;
update notifying set number = coalesce((select seq from sqlite_sequence where name = 'events'), 0)
where one = 1 and number is null;

-- listen_no_more: nobody wants to be told any more; whoever watches keeps events coming for himself
update listening set until = :until
where one = 1 and until = 9223372036854775807 and not exists (select 1 from subscriptions);
update notifying set number = null where one = 1 and not exists (select 1 from subscriptions);

-- take_notifying: the place up to which everything was told, for a node that is at it from now on, unless another is
update notifying set holder = :holder, taken_at = :now, held_until = :until
where one = 1 and number is not null and (holder is null or holder = :holder or held_until <= :now)
returning number;

-- notified: everything up to a place was told
update notifying set number = :number where one = 1 and number < :number;

-- news_of_live_runs: what notifications say of runs that are not over
select r.id, r.job_id, l.task, l.queue, r.attempt, r.due_at, r.started_at, r.first_started_at, null as finished_at, null as failure,
    null as error, r.options
from json_each(:places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16) and r.tenant_id = :tenant_id
join lanes l on l.id = r.home_lane
where :ended is null and (:started is null or r.started_at = :started);

-- news_of_attempts: what they say of attempts that started, or ended, at a moment; else of runs that are over
select h.run_id as id, h.job_id, l.task, l.queue, h.attempt, h.due_at, h.started_at, h.first_started_at, h.finished_at, h.failure,
    substr(h.error, 1, 2000) as error, h.options
from json_each(:places) x cross join history h
    on h.tenant_id = :tenant_id and h.run_id = substr(:ids, x.key * 16 + 1, 16)
    and case when :ended is not null then h.finished_at = :ended when :started is not null then h.started_at = :started
        else h.end_state is not null end
join lanes l on l.id = h.lane_id;

-- claimed_ids: the runs of all claims, which may be over by now
select run_ids from claims;

-- held_runs_of: those of these runs that are held, by whom and for how long
select r.id, r.tenant_id, r.worker_id, r.options, :now - r.started_at as ran_for
from json_each(:places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
where r.worker_id is not null;

-- count_dead_letters: how many dead letters a tenant, or a queue of it, has, up to a cap
select count(*) from (
    select 1 from dead_letters d where d.tenant_id = :tenant_id
        and (:queue is null or (select l.queue from lanes l where l.id = d.lane_id) = :queue) limit :cap);

-- count_ready: how many runs of a tenant, or of a queue of it, wait and could start now, in each lane up to a cap
select coalesce(sum((
    select count(*) from (
        select 1 from runs r where r.lane_id = l.id and r.worker_id is null and r.ready_at <= :now limit :cap))), 0)
from lanes l where l.tenant_id = :tenant_id and l.awake and (:queue is null or l.queue = :queue) and l.queue <> :without;

-- put_alert: set a rule; one that says something else begins anew
insert into alerts (tenant_id, name, rule) values (:tenant_id, :name, :rule)
on conflict (tenant_id, name) do update set rule = excluded.rule, checked_at = 0, wrong_since = null;

-- list_alerts: a tenant's alerts, or one of them
select tenant_id, rule, open, value, wrong_since, changed_at, checked_at, version
from alerts where tenant_id = :tenant_id and (:name is null or name = :name) order by name;

-- delete_alert: remove a rule
delete from alerts where tenant_id = :tenant_id and name = :name;

-- take_alerts: alerts whose turn it is, and nobody else's for the next while
update alerts set checked_at = :now where (tenant_id, name) in (
    select tenant_id, name from alerts where checked_at <= :now - :every order by checked_at limit :limit)
returning tenant_id, rule, open, value, wrong_since, changed_at, checked_at, version;

-- keep_alert: how an alert stands, unless somebody else has said so meanwhile, or the rule is another one
update alerts set open = :open, value = :value, wrong_since = :wrong_since, changed_at = :changed_at,
    version = :version
where tenant_id = :tenant_id and name = :name and rule = :rule and version = :seen;
