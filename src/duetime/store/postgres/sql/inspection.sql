-- server_facts: what `duetime doctor` reads about the server
select current_setting('server_version') as version, current_setting('server_version_num')::integer as number,
    pg_is_in_recovery() as in_recovery, current_setting('transaction_read_only')::boolean as read_only,
    current_setting('fsync')::boolean as fsync, current_setting('synchronous_commit') as synchronous_commit,
    current_setting('full_page_writes')::boolean as full_page_writes,
    current_setting('default_transaction_isolation') as isolation,
    current_setting('autovacuum')::boolean as autovacuum,
    extract(epoch from current_setting('statement_timeout')::interval)::float8 as statement_timeout,
    (select count(*) from pg_stat_activity a where a.backend_type = 'client backend')::integer as connections,
    current_setting('max_connections')::integer as most_connections,
    coalesce((select extract(epoch from max(clock_timestamp() - a.xact_start)) from pg_stat_activity a
        where a.pid <> pg_backend_pid()), 0)::float8 as oldest_transaction,
    pg_database_size(current_database()) as database_bytes
