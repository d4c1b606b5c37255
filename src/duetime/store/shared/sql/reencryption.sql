-- stale_secrets: of the next secrets that all nodes share, those encrypted with another key, and the last one
with w as materialized (
    select t.name as key_0, null as tenant_id, t.value
    from duetime.secrets t
    where t.name > :key_0::text order by t.name limit :window
)
select (select count(*) from w) as seen, w.* from w
where substr(w.value, 1, length(:seal::bytea)) = :seal and substr(w.value, 1, length(:head::bytea)) <> :head::bytea
    or w.key_0 = (select l.key_0 from w l order by l.key_0 desc limit 1)
order by w.key_0 limit :most;

-- reseal_secrets: secrets that all nodes share re-encrypted, if they have not changed
update duetime.secrets set
    value = case when substr(value, 1, length(:value_old::bytea)) = :value_old then :value_new else value end
where name = :key_0;

-- stale_tenant_secrets: of the next secrets that headers name, those encrypted with another key, and the last one
with w as materialized (
    select t.tenant_id as key_0, t.name as key_1, t.tenant_id, t.value
    from duetime.tenant_secrets t
    where (t.tenant_id, t.name) > (:key_0::integer, :key_1::text) order by t.tenant_id, t.name limit :window
)
select (select count(*) from w) as seen, w.* from w
where substr(w.value, 1, length(:seal::bytea)) = :seal and substr(w.value, 1, length(:head::bytea)) <> :head::bytea
    or (w.key_0, w.key_1) = (select l.key_0, l.key_1 from w l order by l.key_0 desc, l.key_1 desc limit 1)
order by w.key_0, w.key_1 limit :most;

-- reseal_tenant_secrets: secrets that headers name re-encrypted, if they have not changed
update duetime.tenant_secrets set
    value = case when substr(value, 1, length(:value_old::bytea)) = :value_old then :value_new else value end
where tenant_id = :key_0 and name = :key_1;

-- stale_stream_queues: of the next addresses of brokers, those encrypted with another key, and the last one
with w as materialized (
    select t.tenant_id as key_0, t.queue as key_1, t.generation as key_2, t.tenant_id, t.address
    from duetime.stream_queues t
    where (t.tenant_id, t.queue, t.generation) > (:key_0::integer, :key_1::text, :key_2::integer)
    order by t.tenant_id, t.queue, t.generation limit :window
)
select (select count(*) from w) as seen, w.* from w
where substr(w.address, 1, length(:text_seal::text)) = :text_seal and substr(w.address, 1, length(:text_head::text)) <> :text_head::text
    or (w.key_0, w.key_1, w.key_2) = (select l.key_0, l.key_1, l.key_2 from w l order by l.key_0 desc, l.key_1 desc, l.key_2 desc limit 1)
order by w.key_0, w.key_1, w.key_2 limit :most;

-- reseal_stream_queues: addresses of brokers re-encrypted, if they have not changed
update duetime.stream_queues set
    address = case when substr(address, 1, length(:address_old::text)) = :address_old then :address_new else address end
where tenant_id = :key_0 and queue = :key_1 and generation = :key_2;

-- stale_subscriptions: of the next addresses of subscriptions, those encrypted with another key, and the last one
with w as materialized (
    select t.tenant_id as key_0, t.name as key_1, t.tenant_id, t.address
    from duetime.subscriptions t
    where (t.tenant_id, t.name) > (:key_0::integer, :key_1::text) order by t.tenant_id, t.name limit :window
)
select (select count(*) from w) as seen, w.* from w
where substr(w.address, 1, length(:text_seal::text)) = :text_seal and substr(w.address, 1, length(:text_head::text)) <> :text_head::text
    or (w.key_0, w.key_1) = (select l.key_0, l.key_1 from w l order by l.key_0 desc, l.key_1 desc limit 1)
order by w.key_0, w.key_1 limit :most;

-- reseal_subscriptions: addresses of subscriptions re-encrypted, if they have not changed
update duetime.subscriptions set
    address = case when substr(address, 1, length(:address_old::text)) = :address_old then :address_new else address end
where tenant_id = :key_0 and name = :key_1;

-- stale_signing_secrets: of the next signing secrets, those encrypted with another key, and the last one
with w as materialized (
    select t.tenant_id as key_0, t.id as key_1, t.tenant_id, t.value
    from duetime.signing_secrets t
    where (t.tenant_id, t.id) > (:key_0::integer, :key_1::uuid) order by t.tenant_id, t.id limit :window
)
select (select count(*) from w) as seen, w.* from w
where substr(w.value, 1, length(:seal::bytea)) = :seal and substr(w.value, 1, length(:head::bytea)) <> :head::bytea
    or (w.key_0, w.key_1) = (select l.key_0, l.key_1 from w l order by l.key_0 desc, l.key_1 desc limit 1)
order by w.key_0, w.key_1 limit :most;

-- reseal_signing_secrets: signing secrets re-encrypted, if they have not changed
update duetime.signing_secrets set
    value = case when substr(value, 1, length(:value_old::bytea)) = :value_old then :value_new else value end
where tenant_id = :key_0 and id = :key_1;

-- stale_payloads: of the next payloads, those encrypted with another key, and the last one
with w as materialized (
    select t.id as key_0, t.tenant_id, t.body
    from duetime.payloads t
    where t.id > :key_0::uuid order by t.id limit :window
)
select (select count(*) from w) as seen, w.* from w
where substr(w.body, 1, length(:seal::bytea)) = :seal and substr(w.body, 1, length(:head::bytea)) <> :head::bytea
    or w.key_0 = (select l.key_0 from w l order by l.key_0 desc limit 1)
order by w.key_0 limit :most;

-- reseal_payloads: payloads re-encrypted, if they have not changed
update duetime.payloads set
    body = case when substr(body, 1, length(:body_old::bytea)) = :body_old then :body_new else body end
where id = :key_0;

-- stale_jobs: of the next jobs, those encrypted with another key, and the last one
with w as materialized (
    select t.id as key_0, t.tenant_id, t.args
    from duetime.jobs t
    where t.id > :key_0::uuid order by t.id limit :window
)
select (select count(*) from w) as seen, w.* from w
where substr(w.args, 1, length(:seal::bytea)) = :seal and substr(w.args, 1, length(:head::bytea)) <> :head::bytea
    or w.key_0 = (select l.key_0 from w l order by l.key_0 desc limit 1)
order by w.key_0 limit :most;

-- reseal_jobs: jobs re-encrypted, if they have not changed
update duetime.jobs set
    args = case when substr(args, 1, length(:args_old::bytea)) = :args_old then :args_new else args end
where id = :key_0;

-- stale_dead_letters: of the next dead letters, those encrypted with another key, and the last one
with w as materialized (
    select t.run_id as key_0, t.tenant_id, t.args, t.error
    from duetime.dead_letters t
    where t.run_id > :key_0::uuid order by t.run_id limit :window
)
select (select count(*) from w) as seen, w.* from w
where substr(w.args, 1, length(:seal::bytea)) = :seal and substr(w.args, 1, length(:head::bytea)) <> :head::bytea
    or substr(w.error, 1, length(:text_seal::text)) = :text_seal and substr(w.error, 1, length(:text_head::text)) <> :text_head::text
    or w.key_0 = (select l.key_0 from w l order by l.key_0 desc limit 1)
order by w.key_0 limit :most;

-- reseal_dead_letters: dead letters re-encrypted, if they have not changed
update duetime.dead_letters set
    args = case when substr(args, 1, length(:args_old::bytea)) = :args_old then :args_new else args end,
    error = case when substr(error, 1, length(:error_old::text)) = :error_old then :error_new else error end
where run_id = :key_0;

-- stale_history: of the next finished attempts, those encrypted with another key, and the last one
with w as materialized (
    select t.tenant_id as key_0, t.run_id as key_1, t.fence as key_2, t.tenant_id, t.args, t.result, t.logs, t.error
    from duetime.history t
    where (t.tenant_id, t.run_id, t.fence) > (:key_0::integer, :key_1::uuid, :key_2::integer)
    order by t.tenant_id, t.run_id, t.fence limit :window
)
select (select count(*) from w) as seen, w.* from w
where substr(w.args, 1, length(:seal::bytea)) = :seal and substr(w.args, 1, length(:head::bytea)) <> :head::bytea
    or substr(w.result, 1, length(:seal::bytea)) = :seal and substr(w.result, 1, length(:head::bytea)) <> :head::bytea
    or substr(w.logs, 1, length(:seal::bytea)) = :seal and substr(w.logs, 1, length(:head::bytea)) <> :head::bytea
    or substr(w.error, 1, length(:text_seal::text)) = :text_seal and substr(w.error, 1, length(:text_head::text)) <> :text_head::text
    or (w.key_0, w.key_1, w.key_2) = (select l.key_0, l.key_1, l.key_2 from w l order by l.key_0 desc, l.key_1 desc, l.key_2 desc limit 1)
order by w.key_0, w.key_1, w.key_2 limit :most;

-- reseal_history: finished attempts re-encrypted, if they have not changed
update duetime.history set
    args = case when substr(args, 1, length(:args_old::bytea)) = :args_old then :args_new else args end,
    result = case when substr(result, 1, length(:result_old::bytea)) = :result_old then :result_new else result end,
    logs = case when substr(logs, 1, length(:logs_old::bytea)) = :logs_old then :logs_new else logs end,
    error = case when substr(error, 1, length(:error_old::text)) = :error_old then :error_new else error end
where tenant_id = :key_0 and run_id = :key_1 and fence = :key_2;

-- stale_runs: of the next live runs, those encrypted with another key, and the last one
with w as materialized (
    select t.id as key_0, t.tenant_id, t.args, t.checkpoint, t.message
    from duetime.runs t
    where t.id > :key_0::uuid order by t.id limit :window
)
select (select count(*) from w) as seen, w.* from w
where substr(w.args, 1, length(:seal::bytea)) = :seal and substr(w.args, 1, length(:head::bytea)) <> :head::bytea
    or substr(w.checkpoint, 1, length(:seal::bytea)) = :seal and substr(w.checkpoint, 1, length(:head::bytea)) <> :head::bytea
    or substr(w.message, 1, length(:text_seal::text)) = :text_seal and substr(w.message, 1, length(:text_head::text)) <> :text_head::text
    or w.key_0 = (select l.key_0 from w l order by l.key_0 desc limit 1)
order by w.key_0 limit :most;

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
