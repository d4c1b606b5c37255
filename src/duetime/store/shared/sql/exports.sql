-- template page(table, key, kind, columns)
-- export_{table}: the next rows of a tenant
select t.{key} as key_0, {columns}
from duetime.{table} t where t.tenant_id = :tenant_id and t.{key} > :key_0::{kind} order by t.{key} limit :limit;
-- end

{page: calendars | name | text | t.name, t.dates, t.version}

{page: queues | name | text | t.name, t.paused_at}

{page: limits | id | bigint | t.kind, t.name, t.running, t.rate, t.period}

{page: subscriptions | name | text | t.name, t.body, t.address}

{page: sources | name | text | t.name, t.body, t.paused, t.stopped, t.marks, t.received, t.made, t.repeated, t.bad, t.errors, t.reason}

{page: alerts | name | text | t.name, t.rule, t.open, t.value, t.wrong_since, t.changed_at}

{page: issuers | name | text | t.name, t.id, t.body, t.created_at, t.changed_at}

{page: bulk_actions | id | uuid | t.id, t.body, t.key_id, t.actor, t.done, t.skipped, t.failed, t.errors, t.created_at, t.finished_at, t.stopped}

{page: checkins | name | text | t.name, t.body, t.paused, t.created_at, t.ping, t.pinged_at, t.exit_code, t.note, t.pings, t.succeeded_at, t.open, t.reason}

{page: tenant_secrets | name | text | t.name, t.hosts, t.roles, t.created_at, t.changed_at}

{page: signing_secrets | id | uuid | t.id, t.created_at, t.expires_at}

{page: api_keys | id | uuid | t.id, t.role, t.name, t.hint, t.queues, t.networks, t.owner, t.tag, t.created_at, t.expires_at, t.revoked_at, t.last_used_at}

{page: tasks | name | text | t.name, t.said, t.arguments, t.seen_at}

{page: payloads | id | uuid | t.id, t.created_at, t.body}

{page: graphs | id | uuid | t.id, t.name, t.nodes, t.unended, t.created_at, t.ended_at, t.status}

{page: audit | id | uuid | t.id, t.at, t.key_id, t.actor, t.action, t.object, t.detail}

-- export_stream_queues: the next generations of a tenant's stream queues
select t.queue as key_0, t.generation as key_1, t.queue, t.generation, t.settings, t.changed_at
from duetime.stream_queues t
where t.tenant_id = :tenant_id and (t.queue, t.generation) > (:key_0::text, :key_1::integer)
order by t.queue, t.generation limit :limit;

-- export_sessions: the next sessions of a tenant's keys
select t.id as key_0, t.id, t.key_id, t.address, t.agent, t.created_at, t.last_seen_at, t.expires_at, t.ends_at
from duetime.sessions t
where t.id > :key_0::uuid and t.key_id = any(array(
    select k.id from duetime.api_keys k where coalesce(k.tenant_id, 0) = :tenant_id))
order by t.id limit :limit;

-- export_jobs: the next jobs of a tenant that have a future
select t.id as key_0, t.id, t.task, t.queue, t.tier, t.schedule, t.recurring, t.args, t.options, t.timeout_ms, t.state,
    t.version, t.problem, t.created_at, t.ended_at, c.next_fire_at, c.last_fire_at
from duetime.jobs t left join lateral (select * from duetime.cursors c where c.job_id = t.id offset 0) c on true
where t.tenant_id = :tenant_id and t.id > :key_0::uuid order by t.id limit :limit;

-- export_runs: the next runs of a tenant that have not ended
select t.job_id as key_0, t.id as key_1, t.id, t.job_id, l.task, l.queue, l.tier, t.fence, t.attempt, t.lost,
    t.cancel_requested, t.due_at, t.ready_at, t.started_at, t.first_started_at, t.timeout_ms, t.progress, t.message,
    t.args, t.options, t.checkpoint, g.logs
from duetime.runs t left join duetime.lanes l on l.id = t.home_lane
left join duetime.live_logs g on g.run_id = t.id and g.fence = t.fence
where t.tenant_id = :tenant_id and (t.job_id, t.id) > (:key_0::uuid, :key_1::uuid)
order by t.job_id, t.id limit :limit;

-- export_dead_letters: the next dead letters of a tenant
select t.run_id as key_0, t.run_id, t.job_id, l.task, l.queue, l.tier, t.attempt, t.lost, t.failure, t.error, t.due_at,
    t.died_at, t.timeout_ms, t.args, t.options, t.fingerprint
from duetime.dead_letters t left join duetime.lanes l on l.id = t.lane_id
where t.tenant_id = :tenant_id and t.run_id > :key_0::uuid order by t.run_id limit :limit;

-- export_history: the next ended attempts of a tenant
select t.run_id as key_0, t.fence as key_1, t.attempt_state as key_2, t.run_id, t.job_id, l.task, l.queue, l.tier, t.fence,
    t.attempt, t.lost, t.attempt_state, t.end_state, t.failure, t.due_at, t.ready_at, t.started_at, t.first_started_at,
    t.finished_at, t.worker_id, t.timeout_ms, t.args, t.options, t.result, t.logs, t.error
from duetime.history t left join duetime.lanes l on l.id = t.lane_id
where t.tenant_id = :tenant_id and (t.run_id, t.fence) >= (:key_0::uuid, :key_1::integer)
    and (t.run_id, t.fence, t.attempt_state) > (:key_0::uuid, :key_1::integer, :key_2::smallint)
order by t.run_id, t.fence, t.attempt_state limit :limit;

-- export_nodes: the next jobs of a tenant's graphs
select g.id as key_0, t.place as key_1, t.graph_id, t.place, t.job_id, t.run_id, t.name, t.task, t.state, t.started_at,
    t.finished_at
from duetime.graphs g join duetime.nodes t on t.graph_id = g.id
where g.tenant_id = :tenant_id and (g.id, t.place) > (:key_0::uuid, :key_1::integer) order by g.id, t.place limit :limit;

-- export_edges: what the jobs of a tenant's graphs depend on
select g.id as key_0, t.place as key_1, e.parent_id as key_2, t.graph_id, e.parent_id, e.child_id, e.state
from duetime.graphs g join duetime.nodes t on t.graph_id = g.id join duetime.edges e on e.child_id = t.job_id
where g.tenant_id = :tenant_id and (g.id, t.place, e.parent_id) > (:key_0::uuid, :key_1::integer, :key_2::uuid)
order by g.id, t.place, e.parent_id limit :limit;

-- export_keys: the next keys that a tenant has chosen
select t.kind::text as key_0, t.key as key_1, t.kind::text as kind, t.key, t.job_id, t.run_id, t.created_at from duetime.keys t
where t.tenant_id = :tenant_id and (t.kind, t.key) > (:key_0::text::"char", :key_1::text) order by t.kind, t.key
limit :limit;

-- export_usage: the next days of what a tenant has used
select t.day as key_0, t.queue as key_1, t.day, t.queue, t.runs, t.failed, t.attempts, t.run_us, t.bytes
from duetime.usage t where t.tenant_id = :tenant_id and (t.day, t.queue) > (:key_0::integer, :key_1::text)
order by t.day, t.queue limit :limit;
