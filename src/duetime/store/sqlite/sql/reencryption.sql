-- stale_live_logs: of the next logs of running attempts, those encrypted with another key, and the last one
with w as materialized (
    select t.run_id as key_0, r.tenant_id, t.logs
    from live_logs t join runs r on r.id = t.run_id
    where t.run_id > :key_0 order by t.run_id limit :window
)
select (select count(*) from w) as seen, w.* from w
where substr(w.logs, 1, length(:seal)) = :seal and substr(w.logs, 1, length(:head)) <> :head
    or w.key_0 = (select l.key_0 from w l order by l.key_0 desc limit 1)
order by w.key_0 limit :most;
