-- stale_secrets: secrets that all nodes share encrypted with another key, among the next ones; and where the look ended
with w as materialized (
    select t.name, t.value from secrets t
    where t.name > :key_0 order by t.name limit :window
),
z as (
    select name, (select count(*) from w) as seen from w
    order by name desc limit 1
),
s as (
    select w.* from w
    where substr(w.value, 1, 6) = x'd77365616c31' and substr(w.value, 1, length(:head)) <> :head
    order by w.name limit :most
)
select z.seen, z.name, s.name,
    null, s.value
from z left join s on true;

-- reseal_secrets: secrets that all nodes share encrypted anew, as far as they are what they were
update secrets set
    value = case when substr(value, 1, length(:value_old)) = :value_old then :value_new else value end
where name = :key_0;

-- stale_tenant_secrets: secrets that headers name encrypted with another key, among the next ones; and where the look ended
with w as materialized (
    select t.tenant_id, t.name, t.value from tenant_secrets t
    where (t.tenant_id, t.name) > (:key_0, :key_1) order by t.tenant_id, t.name limit :window
),
z as (
    select tenant_id, name, (select count(*) from w) as seen from w
    order by tenant_id desc, name desc limit 1
),
s as (
    select w.* from w
    where substr(w.value, 1, 6) = x'd77365616c31' and substr(w.value, 1, length(:head)) <> :head
    order by w.tenant_id, w.name limit :most
)
select z.seen, z.tenant_id, z.name, s.tenant_id, s.name,
    s.tenant_id, s.value
from z left join s on true;

-- reseal_tenant_secrets: secrets that headers name encrypted anew, as far as they are what they were
update tenant_secrets set
    value = case when substr(value, 1, length(:value_old)) = :value_old then :value_new else value end
where tenant_id = :key_0 and name = :key_1;

-- stale_signing_secrets: signing secrets encrypted with another key, among the next ones; and where the look ended
with w as materialized (
    select t.tenant_id, t.id, t.value from signing_secrets t
    where (t.tenant_id, t.id) > (:key_0, :key_1) order by t.tenant_id, t.id limit :window
),
z as (
    select tenant_id, id, (select count(*) from w) as seen from w
    order by tenant_id desc, id desc limit 1
),
s as (
    select w.* from w
    where substr(w.value, 1, 6) = x'd77365616c31' and substr(w.value, 1, length(:head)) <> :head
    order by w.tenant_id, w.id limit :most
)
select z.seen, z.tenant_id, z.id, s.tenant_id, s.id,
    s.tenant_id, s.value
from z left join s on true;

-- reseal_signing_secrets: signing secrets encrypted anew, as far as they are what they were
update signing_secrets set
    value = case when substr(value, 1, length(:value_old)) = :value_old then :value_new else value end
where tenant_id = :key_0 and id = :key_1;

-- stale_payloads: payloads encrypted with another key, among the next ones; and where the look ended
with w as materialized (
    select t.id, t.tenant_id, t.body from payloads t
    where t.id > :key_0 order by t.id limit :window
),
z as (
    select id, (select count(*) from w) as seen from w
    order by id desc limit 1
),
s as (
    select w.* from w
    where substr(w.body, 1, 6) = x'd77365616c31' and substr(w.body, 1, length(:head)) <> :head
    order by w.id limit :most
)
select z.seen, z.id, s.id,
    s.tenant_id, s.body
from z left join s on true;

-- reseal_payloads: payloads encrypted anew, as far as they are what they were
update payloads set
    body = case when substr(body, 1, length(:body_old)) = :body_old then :body_new else body end
where id = :key_0;

-- stale_jobs: jobs encrypted with another key, among the next ones; and where the look ended
with w as materialized (
    select t.id, t.tenant_id, t.args from jobs t
    where t.id > :key_0 order by t.id limit :window
),
z as (
    select id, (select count(*) from w) as seen from w
    order by id desc limit 1
),
s as (
    select w.* from w
    where substr(w.args, 1, 6) = x'd77365616c31' and substr(w.args, 1, length(:head)) <> :head
    order by w.id limit :most
)
select z.seen, z.id, s.id,
    s.tenant_id, s.args
from z left join s on true;

-- reseal_jobs: jobs encrypted anew, as far as they are what they were
update jobs set
    args = case when substr(args, 1, length(:args_old)) = :args_old then :args_new else args end
where id = :key_0;

-- stale_dead_letters: dead letters encrypted with another key, among the next ones; and where the look ended
with w as materialized (
    select t.run_id, t.tenant_id, t.args, t.error from dead_letters t
    where t.run_id > :key_0 order by t.run_id limit :window
),
z as (
    select run_id, (select count(*) from w) as seen from w
    order by run_id desc limit 1
),
s as (
    select w.* from w
    where substr(w.args, 1, 6) = x'd77365616c31' and substr(w.args, 1, length(:head)) <> :head
        or substr(w.error, 1, 9) = '!sealed1:' and substr(w.error, 1, length(:text_head)) <> :text_head
    order by w.run_id limit :most
)
select z.seen, z.run_id, s.run_id,
    s.tenant_id, s.args, s.error
from z left join s on true;

-- reseal_dead_letters: dead letters encrypted anew, as far as they are what they were
update dead_letters set
    args = case when substr(args, 1, length(:args_old)) = :args_old then :args_new else args end,
    error = case when substr(error, 1, length(:error_old)) = :error_old then :error_new else error end
where run_id = :key_0;

-- stale_history: finished attempts encrypted with another key, among the next ones; and where the look ended
with w as materialized (
    select t.tenant_id, t.run_id, t.fence, t.args, t.result, t.logs, t.error from history t
    where (t.tenant_id, t.run_id, t.fence) > (:key_0, :key_1, :key_2) order by t.tenant_id, t.run_id, t.fence limit :window
),
z as (
    select tenant_id, run_id, fence, (select count(*) from w) as seen from w
    order by tenant_id desc, run_id desc, fence desc limit 1
),
s as (
    select w.* from w
    where substr(w.args, 1, 6) = x'd77365616c31' and substr(w.args, 1, length(:head)) <> :head
        or substr(w.result, 1, 6) = x'd77365616c31' and substr(w.result, 1, length(:head)) <> :head
        or substr(w.logs, 1, 6) = x'd77365616c31' and substr(w.logs, 1, length(:head)) <> :head
        or substr(w.error, 1, 9) = '!sealed1:' and substr(w.error, 1, length(:text_head)) <> :text_head
    order by w.tenant_id, w.run_id, w.fence limit :most
)
select z.seen, z.tenant_id, z.run_id, z.fence, s.tenant_id, s.run_id, s.fence,
    s.tenant_id, s.args, s.result, s.logs, s.error
from z left join s on true;

-- reseal_history: finished attempts encrypted anew, as far as they are what they were
update history set
    args = case when substr(args, 1, length(:args_old)) = :args_old then :args_new else args end,
    result = case when substr(result, 1, length(:result_old)) = :result_old then :result_new else result end,
    logs = case when substr(logs, 1, length(:logs_old)) = :logs_old then :logs_new else logs end,
    error = case when substr(error, 1, length(:error_old)) = :error_old then :error_new else error end
where tenant_id = :key_0 and run_id = :key_1 and fence = :key_2;

-- stale_runs: live runs encrypted with another key, among the next ones; and where the look ended
with w as materialized (
    select t.id, t.tenant_id, t.args, t.checkpoint, t.message from runs t
    where t.id > :key_0 order by t.id limit :window
),
z as (
    select id, (select count(*) from w) as seen from w
    order by id desc limit 1
),
s as (
    select w.* from w
    where substr(w.args, 1, 6) = x'd77365616c31' and substr(w.args, 1, length(:head)) <> :head
        or substr(w.checkpoint, 1, 6) = x'd77365616c31' and substr(w.checkpoint, 1, length(:head)) <> :head
        or substr(w.message, 1, 9) = '!sealed1:' and substr(w.message, 1, length(:text_head)) <> :text_head
    order by w.id limit :most
)
select z.seen, z.id, s.id,
    s.tenant_id, s.args, s.checkpoint, s.message
from z left join s on true;

-- reseal_runs: live runs encrypted anew, as far as they are what they were
update runs set
    args = case when substr(args, 1, length(:args_old)) = :args_old then :args_new else args end,
    checkpoint = case when substr(checkpoint, 1, length(:checkpoint_old)) = :checkpoint_old then :checkpoint_new else checkpoint end,
    message = case when substr(message, 1, length(:message_old)) = :message_old then :message_new else message end
where id = :key_0;

-- stale_live_logs: logs of running attempts encrypted with another key, among the next ones; and where the look ended
with w as materialized (
    select t.run_id, r.tenant_id, t.logs from live_logs t join runs r on r.id = t.run_id
    where t.run_id > :key_0 order by t.run_id limit :window
),
z as (
    select run_id, (select count(*) from w) as seen from w
    order by run_id desc limit 1
),
s as (
    select w.* from w
    where substr(w.logs, 1, 6) = x'd77365616c31' and substr(w.logs, 1, length(:head)) <> :head
    order by w.run_id limit :most
)
select z.seen, z.run_id, s.run_id,
    s.tenant_id, s.logs
from z left join s on true;

-- reseal_live_logs: logs of running attempts encrypted anew, as far as they are what they were
update live_logs set
    logs = case when substr(logs, 1, length(:logs_old)) = :logs_old then :logs_new else logs end
where run_id = :key_0;
