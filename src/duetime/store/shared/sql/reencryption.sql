-- stale_secrets: secrets that all nodes share encrypted with another key, among the next rows; and the last key read
with w as materialized (
    select t.name, t.value from duetime.secrets t
    where t.name > :key_0::text order by t.name limit :window
),
z as (
    select name, (select count(*) from w) as seen from w
    order by name desc limit 1
),
s as (
    select w.* from w
    where substr(w.value, 1, length(:seal::bytea)) = :seal and substr(w.value, 1, length(:head::bytea)) <> :head::bytea
    order by w.name limit :most
)
select z.seen, z.name as last_0, s.name as key_0,
    null as tenant_id, s.value
from z left join s on true;

-- reseal_secrets: secrets that all nodes share re-encrypted, if they have not changed
update duetime.secrets set
    value = case when substr(value, 1, length(:value_old::bytea)) = :value_old then :value_new else value end
where name = :key_0;

-- stale_tenant_secrets: secrets that headers name encrypted with another key, among the next rows; and the last key read
with w as materialized (
    select t.tenant_id, t.name, t.value from duetime.tenant_secrets t
    where (t.tenant_id, t.name) > (:key_0::integer, :key_1::text) order by t.tenant_id, t.name limit :window
),
z as (
    select tenant_id, name, (select count(*) from w) as seen from w
    order by tenant_id desc, name desc limit 1
),
s as (
    select w.* from w
    where substr(w.value, 1, length(:seal::bytea)) = :seal and substr(w.value, 1, length(:head::bytea)) <> :head::bytea
    order by w.tenant_id, w.name limit :most
)
select z.seen, z.tenant_id as last_0, z.name as last_1, s.tenant_id as key_0, s.name as key_1,
    s.tenant_id, s.value
from z left join s on true;

-- reseal_tenant_secrets: secrets that headers name re-encrypted, if they have not changed
update duetime.tenant_secrets set
    value = case when substr(value, 1, length(:value_old::bytea)) = :value_old then :value_new else value end
where tenant_id = :key_0 and name = :key_1;

-- stale_stream_queues: addresses of brokers encrypted with another key, among the next rows; and the last key read
with w as materialized (
    select t.tenant_id, t.queue, t.generation, t.address from duetime.stream_queues t
    where (t.tenant_id, t.queue, t.generation) > (:key_0::integer, :key_1::text, :key_2::integer)
    order by t.tenant_id, t.queue, t.generation limit :window
),
z as (
    select tenant_id, queue, generation, (select count(*) from w) as seen from w
    order by tenant_id desc, queue desc, generation desc limit 1
),
s as (
    select w.* from w
    where substr(w.address, 1, length(:text_seal::text)) = :text_seal and substr(w.address, 1, length(:text_head::text)) <> :text_head::text
    order by w.tenant_id, w.queue, w.generation limit :most
)
select z.seen, z.tenant_id as last_0, z.queue as last_1, z.generation as last_2, s.tenant_id as key_0, s.queue as key_1,
    s.generation as key_2, s.tenant_id, s.address
from z left join s on true;

-- reseal_stream_queues: addresses of brokers re-encrypted, if they have not changed
update duetime.stream_queues set
    address = case when substr(address, 1, length(:address_old::text)) = :address_old then :address_new else address end
where tenant_id = :key_0 and queue = :key_1 and generation = :key_2;

-- stale_signing_secrets: signing secrets encrypted with another key, among the next rows; and the last key read
with w as materialized (
    select t.tenant_id, t.id, t.value from duetime.signing_secrets t
    where (t.tenant_id, t.id) > (:key_0::integer, :key_1::uuid) order by t.tenant_id, t.id limit :window
),
z as (
    select tenant_id, id, (select count(*) from w) as seen from w
    order by tenant_id desc, id desc limit 1
),
s as (
    select w.* from w
    where substr(w.value, 1, length(:seal::bytea)) = :seal and substr(w.value, 1, length(:head::bytea)) <> :head::bytea
    order by w.tenant_id, w.id limit :most
)
select z.seen, z.tenant_id as last_0, z.id as last_1, s.tenant_id as key_0, s.id as key_1,
    s.tenant_id, s.value
from z left join s on true;

-- reseal_signing_secrets: signing secrets re-encrypted, if they have not changed
update duetime.signing_secrets set
    value = case when substr(value, 1, length(:value_old::bytea)) = :value_old then :value_new else value end
where tenant_id = :key_0 and id = :key_1;

-- stale_payloads: payloads encrypted with another key, among the next rows; and the last key read
with w as materialized (
    select t.id, t.tenant_id, t.body from duetime.payloads t
    where t.id > :key_0::uuid order by t.id limit :window
),
z as (
    select id, (select count(*) from w) as seen from w
    order by id desc limit 1
),
s as (
    select w.* from w
    where substr(w.body, 1, length(:seal::bytea)) = :seal and substr(w.body, 1, length(:head::bytea)) <> :head::bytea
    order by w.id limit :most
)
select z.seen, z.id as last_0, s.id as key_0,
    s.tenant_id, s.body
from z left join s on true;

-- reseal_payloads: payloads re-encrypted, if they have not changed
update duetime.payloads set
    body = case when substr(body, 1, length(:body_old::bytea)) = :body_old then :body_new else body end
where id = :key_0;

-- stale_jobs: jobs encrypted with another key, among the next rows; and the last key read
with w as materialized (
    select t.id, t.tenant_id, t.args from duetime.jobs t
    where t.id > :key_0::uuid order by t.id limit :window
),
z as (
    select id, (select count(*) from w) as seen from w
    order by id desc limit 1
),
s as (
    select w.* from w
    where substr(w.args, 1, length(:seal::bytea)) = :seal and substr(w.args, 1, length(:head::bytea)) <> :head::bytea
    order by w.id limit :most
)
select z.seen, z.id as last_0, s.id as key_0,
    s.tenant_id, s.args
from z left join s on true;

-- reseal_jobs: jobs re-encrypted, if they have not changed
update duetime.jobs set
    args = case when substr(args, 1, length(:args_old::bytea)) = :args_old then :args_new else args end
where id = :key_0;

-- stale_dead_letters: dead letters encrypted with another key, among the next rows; and the last key read
with w as materialized (
    select t.run_id, t.tenant_id, t.args, t.error from duetime.dead_letters t
    where t.run_id > :key_0::uuid order by t.run_id limit :window
),
z as (
    select run_id, (select count(*) from w) as seen from w
    order by run_id desc limit 1
),
s as (
    select w.* from w
    where substr(w.args, 1, length(:seal::bytea)) = :seal and substr(w.args, 1, length(:head::bytea)) <> :head::bytea
        or substr(w.error, 1, length(:text_seal::text)) = :text_seal and substr(w.error, 1, length(:text_head::text)) <> :text_head::text
    order by w.run_id limit :most
)
select z.seen, z.run_id as last_0, s.run_id as key_0,
    s.tenant_id, s.args, s.error
from z left join s on true;

-- reseal_dead_letters: dead letters re-encrypted, if they have not changed
update duetime.dead_letters set
    args = case when substr(args, 1, length(:args_old::bytea)) = :args_old then :args_new else args end,
    error = case when substr(error, 1, length(:error_old::text)) = :error_old then :error_new else error end
where run_id = :key_0;

-- stale_history: finished attempts encrypted with another key, among the next rows; and the last key read
with w as materialized (
    select t.tenant_id, t.run_id, t.fence, t.args, t.result, t.logs, t.error from duetime.history t
    where (t.tenant_id, t.run_id, t.fence) > (:key_0::integer, :key_1::uuid, :key_2::integer) order by t.tenant_id, t.run_id, t.fence limit :window
),
z as (
    select tenant_id, run_id, fence, (select count(*) from w) as seen from w
    order by tenant_id desc, run_id desc, fence desc limit 1
),
s as (
    select w.* from w
    where substr(w.args, 1, length(:seal::bytea)) = :seal and substr(w.args, 1, length(:head::bytea)) <> :head::bytea
        or substr(w.result, 1, length(:seal::bytea)) = :seal and substr(w.result, 1, length(:head::bytea)) <> :head::bytea
        or substr(w.logs, 1, length(:seal::bytea)) = :seal and substr(w.logs, 1, length(:head::bytea)) <> :head::bytea
        or substr(w.error, 1, length(:text_seal::text)) = :text_seal and substr(w.error, 1, length(:text_head::text)) <> :text_head::text
    order by w.tenant_id, w.run_id, w.fence limit :most
)
select z.seen, z.tenant_id as last_0, z.run_id as last_1, z.fence as last_2, s.tenant_id as key_0, s.run_id as key_1, s.fence as key_2,
    s.tenant_id, s.args, s.result, s.logs, s.error
from z left join s on true;

-- reseal_history: finished attempts re-encrypted, if they have not changed
update duetime.history set
    args = case when substr(args, 1, length(:args_old::bytea)) = :args_old then :args_new else args end,
    result = case when substr(result, 1, length(:result_old::bytea)) = :result_old then :result_new else result end,
    logs = case when substr(logs, 1, length(:logs_old::bytea)) = :logs_old then :logs_new else logs end,
    error = case when substr(error, 1, length(:error_old::text)) = :error_old then :error_new else error end
where tenant_id = :key_0 and run_id = :key_1 and fence = :key_2;

-- stale_runs: live runs encrypted with another key, among the next rows; and the last key read
with w as materialized (
    select t.id, t.tenant_id, t.args, t.checkpoint, t.message from duetime.runs t
    where t.id > :key_0::uuid order by t.id limit :window
),
z as (
    select id, (select count(*) from w) as seen from w
    order by id desc limit 1
),
s as (
    select w.* from w
    where substr(w.args, 1, length(:seal::bytea)) = :seal and substr(w.args, 1, length(:head::bytea)) <> :head::bytea
        or substr(w.checkpoint, 1, length(:seal::bytea)) = :seal and substr(w.checkpoint, 1, length(:head::bytea)) <> :head::bytea
        or substr(w.message, 1, length(:text_seal::text)) = :text_seal and substr(w.message, 1, length(:text_head::text)) <> :text_head::text
    order by w.id limit :most
)
select z.seen, z.id as last_0, s.id as key_0,
    s.tenant_id, s.args, s.checkpoint, s.message
from z left join s on true;

-- reseal_runs: live runs re-encrypted, if they have not changed
update duetime.runs set
    args = case when substr(args, 1, length(:args_old::bytea)) = :args_old then :args_new else args end,
    checkpoint = case when substr(checkpoint, 1, length(:checkpoint_old::bytea)) = :checkpoint_old then :checkpoint_new else checkpoint end,
    message = case when substr(message, 1, length(:message_old::text)) = :message_old then :message_new else message end
where id = :key_0;

-- reseal_live_logs: logs of running attempts re-encrypted, if they have not changed
update duetime.live_logs set
    logs = case when substr(logs, 1, length(:logs_old::bytea)) = :logs_old then :logs_new else logs end
where run_id = :key_0;
