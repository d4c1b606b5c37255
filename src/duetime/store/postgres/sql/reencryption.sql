-- stale_live_logs: logs of running attempts encrypted with another key, among the next rows; and the last key read
with w as materialized (
    select t.run_id, t.tenant_id, t.logs from duetime.live_logs t
    where t.run_id > :key_0::uuid order by t.run_id limit :window
),
z as (
    select run_id, (select count(*) from w) as seen from w
    order by run_id desc limit 1
),
s as (
    select w.* from w
    where substr(w.logs, 1, length(:seal::bytea)) = :seal and substr(w.logs, 1, length(:head::bytea)) <> :head::bytea
    order by w.run_id limit :most
)
select z.seen, z.run_id as last_0, s.run_id as key_0,
    s.tenant_id, s.logs
from z left join s on true;
