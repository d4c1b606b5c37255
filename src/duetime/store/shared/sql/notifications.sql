-- put_subscription: create or replace a subscription
insert into duetime.subscriptions (tenant_id, name, body, address) values (:tenant_id, :name, :body, :address)
on conflict (tenant_id, name) do update set body = excluded.body, address = excluded.address;

-- list_subscriptions: the subscriptions of a tenant, or of all tenants
select tenant_id, body, address from duetime.subscriptions
where :tenant_id::int is null or tenant_id = :tenant_id order by tenant_id, name;

-- delete_subscription: remove a subscription
delete from duetime.subscriptions where tenant_id = :tenant_id and name = :name;

-- take_notifying: become the notifier, unless another node is; returns the position up to which all was sent
update duetime.notifying
set holder = :holder, taken_at = duetime.now(), held_until = duetime.now() + :period::interval
where one and number is not null and (holder is null or holder = :holder or held_until <= duetime.now())
returning number;

-- notified: everything up to a position was sent
update duetime.notifying set number = :number where one and number < :number;

-- news_of_live_runs: what notifications say about live runs, or about their attempts that started at a moment
select r.id, r.job_id, l.task, l.queue, r.attempt, r.due_at, r.started_at, r.first_started_at, null as finished_at,
    null as failure, null as error, r.options
from duetime.runs r join duetime.lanes l on l.id = r.home_lane
where r.id = any(:ids::uuid[]) and r.tenant_id is not distinct from :tenant_id
    and (:started::timestamptz is null or r.started_at = :started);

-- news_of_attempts: what they say about attempts that started, or ended, at a moment; else about ended runs
select h.run_id as id, h.job_id, l.task, l.queue, h.attempt, h.due_at, h.started_at, h.first_started_at, h.finished_at,
    h.failure, substr(h.error, 1, 2000) as error, h.options
from duetime.history h join duetime.lanes l on l.id = h.lane_id
where h.tenant_id = :tenant_id and h.run_id = any(:ids::uuid[])
    and case when :ended::timestamptz is not null then h.finished_at = :ended
        when :started::timestamptz is not null then h.started_at = :started else h.end_state is not null end;

-- count_dead_letters: how many dead letters a tenant, or one of its queues, has, up to a cap
select count(*) as count from (
    select 1 from duetime.dead_letters d where d.tenant_id = :tenant_id
        and (:queue::text is null or (select l.queue from duetime.lanes l where l.id = d.lane_id) = :queue) limit :cap) d;

-- count_ready: how many ready runs of a tenant, or of one of its queues, wait, up to a cap in each lane
select coalesce(sum((
    select count(*) from (
        select 1 from duetime.runs r
        where r.lane_id = l.id and r.ready_at <= duetime.now() and r.worker_id is null limit :cap) w)), 0) as count
from duetime.lanes l
where l.tenant_id = :tenant_id and l.awake and (:queue::text is null or l.queue = :queue) and l.queue <> :without;

-- list_alerts: a tenant's alerts, or one of them
select tenant_id, rule, open, value, wrong_since, counts_from, good_at, changed_at, checked_at, judged_at, pauses, version,
    told, message
from duetime.alerts where tenant_id = :tenant_id and (:name::text is null or name = :name) order by name;

-- delete_alert: remove a rule
delete from duetime.alerts where tenant_id = :tenant_id and name = :name;

-- take_alerts: reserve alerts that are due for a check, so that no other node gets them for a while
update duetime.alerts set checked_at = duetime.now() where (tenant_id, name) in (
    select tenant_id, name from duetime.alerts where checked_at <= duetime.now() - :every::interval
    order by checked_at limit :limit for update skip locked)
returning tenant_id, rule, open, value, wrong_since, counts_from, good_at, changed_at, checked_at, judged_at, pauses, version,
    told, message;

-- keep_alert: store the state of an alert, unless another node has stored it, or the rule has changed. A success that was
-- heard of meanwhile stays
update duetime.alerts
set open = :open, value = :value, wrong_since = :wrong_since, changed_at = :changed_at, judged_at = :judged_at,
    counts_from = case when good_at is not distinct from :good_at::timestamptz then :counts_from::timestamptz
        else counts_from end,
    pauses = :pauses, version = :version, message = :message
where tenant_id = :tenant_id and name = :name and rule = :rule and version = :seen;

-- mark_alert_notified: the notifications about a version are stored
update duetime.alerts set told = :version where tenant_id = :tenant_id and name = :name and version = :version;

-- hearing_alerts: the rules that learn of runs from events
select tenant_id, rule, good_at from duetime.alerts where hears;

-- heard_success: a run that a rule covers has succeeded
update duetime.alerts set good_at = :at::timestamptz, counts_from = :at
where tenant_id = :tenant_id and name = :name and rule = :rule
    and (good_at is null or good_at < :at or good_at > duetime.now());

-- events_read: all events until a moment were read
update duetime.notifying set read_at = :at::timestamptz where one;

-- events_read_until: up to when the events were read
select read_at from duetime.notifying where one;

-- put_alert: set a rule; one that says something else begins anew
insert into duetime.alerts (tenant_id, name, rule, hears) values (:tenant_id, :name, :rule, :hears)
on conflict (tenant_id, name) do update set rule = excluded.rule, hears = excluded.hears, checked_at = '-infinity',
    counts_from = case when alerts.rule = excluded.rule then alerts.counts_from end,
    good_at = case when alerts.rule = excluded.rule then alerts.good_at end,
    judged_at = case when alerts.rule = excluded.rule then alerts.judged_at end,
    pauses = case when alerts.rule = excluded.rule then alerts.pauses end,
    wrong_since = case when alerts.rule = excluded.rule then alerts.wrong_since end;
