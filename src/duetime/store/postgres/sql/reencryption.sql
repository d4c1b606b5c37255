-- stale_secrets: secrets that all nodes share encrypted with another key, among the next ones; and where the look ended
with w as materialized (
    select t.name, t.value from duetime.secrets t
    where t.name > $1::text order by t.name limit $2
),
z as (
    select name, (select count(*) from w) as seen from w
    order by name desc limit 1
),
s as (
    select w.* from w
    where substr(w.value, 1, 6) = '\xd77365616c31'::bytea and substr(w.value, 1, length($4::bytea)) <> $4::bytea
    order by w.name limit $3
)
select z.seen, z.name, s.name,
    null, s.value
from z left join s on true;

-- reseal_secrets: secrets that all nodes share encrypted anew, as far as they are what they were
update duetime.secrets t set
    value = case when substr(t.value, 1, length(x.value_old)) = x.value_old then x.value_new else t.value end
from unnest($1::text[], $2::bytea[], $3::bytea[])
    as x(key_0, value_old, value_new)
where t.name = any(array[x.key_0]);

-- stale_tenant_secrets: secrets that headers name encrypted with another key, among the next ones; and where the look ended
with w as materialized (
    select t.tenant_id, t.name, t.value from duetime.tenant_secrets t
    where (t.tenant_id, t.name) > ($1::integer, $2::text) order by t.tenant_id, t.name limit $3
),
z as (
    select tenant_id, name, (select count(*) from w) as seen from w
    order by tenant_id desc, name desc limit 1
),
s as (
    select w.* from w
    where substr(w.value, 1, 6) = '\xd77365616c31'::bytea and substr(w.value, 1, length($5::bytea)) <> $5::bytea
    order by w.tenant_id, w.name limit $4
)
select z.seen, z.tenant_id, z.name, s.tenant_id, s.name,
    s.tenant_id, s.value
from z left join s on true;

-- reseal_tenant_secrets: secrets that headers name encrypted anew, as far as they are what they were
update duetime.tenant_secrets t set
    value = case when substr(t.value, 1, length(x.value_old)) = x.value_old then x.value_new else t.value end
from unnest($1::integer[], $2::text[], $3::bytea[], $4::bytea[])
    as x(key_0, key_1, value_old, value_new)
where t.tenant_id = any(array[x.key_0]) and t.name = any(array[x.key_1]);

-- stale_signing_secrets: signing secrets encrypted with another key, among the next ones; and where the look ended
with w as materialized (
    select t.tenant_id, t.id, t.value from duetime.signing_secrets t
    where (t.tenant_id, t.id) > ($1::integer, $2::uuid) order by t.tenant_id, t.id limit $3
),
z as (
    select tenant_id, id, (select count(*) from w) as seen from w
    order by tenant_id desc, id desc limit 1
),
s as (
    select w.* from w
    where substr(w.value, 1, 6) = '\xd77365616c31'::bytea and substr(w.value, 1, length($5::bytea)) <> $5::bytea
    order by w.tenant_id, w.id limit $4
)
select z.seen, z.tenant_id, z.id, s.tenant_id, s.id,
    s.tenant_id, s.value
from z left join s on true;

-- reseal_signing_secrets: signing secrets encrypted anew, as far as they are what they were
update duetime.signing_secrets t set
    value = case when substr(t.value, 1, length(x.value_old)) = x.value_old then x.value_new else t.value end
from unnest($1::integer[], $2::uuid[], $3::bytea[], $4::bytea[])
    as x(key_0, key_1, value_old, value_new)
where t.tenant_id = any(array[x.key_0]) and t.id = any(array[x.key_1]);

-- stale_payloads: payloads encrypted with another key, among the next ones; and where the look ended
with w as materialized (
    select t.id, t.tenant_id, t.body from duetime.payloads t
    where t.id > $1::uuid order by t.id limit $2
),
z as (
    select id, (select count(*) from w) as seen from w
    order by id desc limit 1
),
s as (
    select w.* from w
    where substr(w.body, 1, 6) = '\xd77365616c31'::bytea and substr(w.body, 1, length($4::bytea)) <> $4::bytea
    order by w.id limit $3
)
select z.seen, z.id, s.id,
    s.tenant_id, s.body
from z left join s on true;

-- reseal_payloads: payloads encrypted anew, as far as they are what they were
update duetime.payloads t set
    body = case when substr(t.body, 1, length(x.body_old)) = x.body_old then x.body_new else t.body end
from unnest($1::uuid[], $2::bytea[], $3::bytea[])
    as x(key_0, body_old, body_new)
where t.id = any(array[x.key_0]);

-- stale_jobs: jobs encrypted with another key, among the next ones; and where the look ended
with w as materialized (
    select t.id, t.tenant_id, t.args from duetime.jobs t
    where t.id > $1::uuid order by t.id limit $2
),
z as (
    select id, (select count(*) from w) as seen from w
    order by id desc limit 1
),
s as (
    select w.* from w
    where substr(w.args, 1, 6) = '\xd77365616c31'::bytea and substr(w.args, 1, length($4::bytea)) <> $4::bytea
    order by w.id limit $3
)
select z.seen, z.id, s.id,
    s.tenant_id, s.args
from z left join s on true;

-- reseal_jobs: jobs encrypted anew, as far as they are what they were
update duetime.jobs t set
    args = case when substr(t.args, 1, length(x.args_old)) = x.args_old then x.args_new else t.args end
from unnest($1::uuid[], $2::bytea[], $3::bytea[])
    as x(key_0, args_old, args_new)
where t.id = any(array[x.key_0]);

-- stale_dead_letters: dead letters encrypted with another key, among the next ones; and where the look ended
with w as materialized (
    select t.run_id, t.tenant_id, t.args, t.error from duetime.dead_letters t
    where t.run_id > $1::uuid order by t.run_id limit $2
),
z as (
    select run_id, (select count(*) from w) as seen from w
    order by run_id desc limit 1
),
s as (
    select w.* from w
    where substr(w.args, 1, 6) = '\xd77365616c31'::bytea and substr(w.args, 1, length($4::bytea)) <> $4::bytea
        or substr(w.error, 1, 9) = '!sealed1:' and substr(w.error, 1, length($5::text)) <> $5::text
    order by w.run_id limit $3
)
select z.seen, z.run_id, s.run_id,
    s.tenant_id, s.args, s.error
from z left join s on true;

-- reseal_dead_letters: dead letters encrypted anew, as far as they are what they were
update duetime.dead_letters t set
    args = case when substr(t.args, 1, length(x.args_old)) = x.args_old then x.args_new else t.args end,
    error = case when substr(t.error, 1, length(x.error_old)) = x.error_old then x.error_new else t.error end
from unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::text[], $5::text[])
    as x(key_0, args_old, args_new, error_old, error_new)
where t.run_id = any(array[x.key_0]);

-- stale_history: finished attempts encrypted with another key, among the next ones; and where the look ended
with w as materialized (
    select t.tenant_id, t.run_id, t.fence, t.args, t.result, t.logs, t.error from duetime.history t
    where (t.tenant_id, t.run_id, t.fence) > ($1::integer, $2::uuid, $3::integer) order by t.tenant_id, t.run_id, t.fence limit $4
),
z as (
    select tenant_id, run_id, fence, (select count(*) from w) as seen from w
    order by tenant_id desc, run_id desc, fence desc limit 1
),
s as (
    select w.* from w
    where substr(w.args, 1, 6) = '\xd77365616c31'::bytea and substr(w.args, 1, length($6::bytea)) <> $6::bytea
        or substr(w.result, 1, 6) = '\xd77365616c31'::bytea and substr(w.result, 1, length($6::bytea)) <> $6::bytea
        or substr(w.logs, 1, 6) = '\xd77365616c31'::bytea and substr(w.logs, 1, length($6::bytea)) <> $6::bytea
        or substr(w.error, 1, 9) = '!sealed1:' and substr(w.error, 1, length($7::text)) <> $7::text
    order by w.tenant_id, w.run_id, w.fence limit $5
)
select z.seen, z.tenant_id, z.run_id, z.fence, s.tenant_id, s.run_id, s.fence,
    s.tenant_id, s.args, s.result, s.logs, s.error
from z left join s on true;

-- reseal_history: finished attempts encrypted anew, as far as they are what they were
update duetime.history t set
    args = case when substr(t.args, 1, length(x.args_old)) = x.args_old then x.args_new else t.args end,
    result = case when substr(t.result, 1, length(x.result_old)) = x.result_old then x.result_new else t.result end,
    logs = case when substr(t.logs, 1, length(x.logs_old)) = x.logs_old then x.logs_new else t.logs end,
    error = case when substr(t.error, 1, length(x.error_old)) = x.error_old then x.error_new else t.error end
from unnest($1::integer[], $2::uuid[], $3::integer[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bytea[], $10::text[], $11::text[])
    as x(key_0, key_1, key_2, args_old, args_new, result_old, result_new, logs_old, logs_new, error_old, error_new)
where t.tenant_id = any(array[x.key_0]) and t.run_id = any(array[x.key_1]) and t.fence = any(array[x.key_2]);

-- stale_runs: live runs encrypted with another key, among the next ones; and where the look ended
with w as materialized (
    select t.id, t.tenant_id, t.args, t.checkpoint, t.message from duetime.runs t
    where t.id > $1::uuid order by t.id limit $2
),
z as (
    select id, (select count(*) from w) as seen from w
    order by id desc limit 1
),
s as (
    select w.* from w
    where substr(w.args, 1, 6) = '\xd77365616c31'::bytea and substr(w.args, 1, length($4::bytea)) <> $4::bytea
        or substr(w.checkpoint, 1, 6) = '\xd77365616c31'::bytea and substr(w.checkpoint, 1, length($4::bytea)) <> $4::bytea
        or substr(w.message, 1, 9) = '!sealed1:' and substr(w.message, 1, length($5::text)) <> $5::text
    order by w.id limit $3
)
select z.seen, z.id, s.id,
    s.tenant_id, s.args, s.checkpoint, s.message
from z left join s on true;

-- reseal_runs: live runs encrypted anew, as far as they are what they were
update duetime.runs t set
    args = case when substr(t.args, 1, length(x.args_old)) = x.args_old then x.args_new else t.args end,
    checkpoint = case when substr(t.checkpoint, 1, length(x.checkpoint_old)) = x.checkpoint_old then x.checkpoint_new else t.checkpoint end,
    message = case when substr(t.message, 1, length(x.message_old)) = x.message_old then x.message_new else t.message end
from unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::text[], $7::text[])
    as x(key_0, args_old, args_new, checkpoint_old, checkpoint_new, message_old, message_new)
where t.id = any(array[x.key_0]);

-- stale_live_logs: logs of running attempts encrypted with another key, among the next ones; and where the look ended
with w as materialized (
    select t.run_id, t.tenant_id, t.logs from duetime.live_logs t
    where t.run_id > $1::uuid order by t.run_id limit $2
),
z as (
    select run_id, (select count(*) from w) as seen from w
    order by run_id desc limit 1
),
s as (
    select w.* from w
    where substr(w.logs, 1, 6) = '\xd77365616c31'::bytea and substr(w.logs, 1, length($4::bytea)) <> $4::bytea
    order by w.run_id limit $3
)
select z.seen, z.run_id, s.run_id,
    s.tenant_id, s.logs
from z left join s on true;

-- reseal_live_logs: logs of running attempts encrypted anew, as far as they are what they were
update duetime.live_logs t set
    logs = case when substr(t.logs, 1, length(x.logs_old)) = x.logs_old then x.logs_new else t.logs end
from unnest($1::uuid[], $2::bytea[], $3::bytea[])
    as x(key_0, logs_old, logs_new)
where t.run_id = any(array[x.key_0]);
