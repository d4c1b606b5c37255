-- template erase(table, key)
-- erase_{table}: remove some rows of a tenant
delete from {table} where ({key}) in (select {key} from {table} where tenant_id = :tenant_id limit :batch);
-- end

{erase: sources | tenant_id, name}

{erase: bulk_actions | id}

{erase: checkins | tenant_id, name}

{erase: alerts | tenant_id, name}

{erase: subscriptions | tenant_id, name}

{erase: handovers | run_id}

{erase: runs | id}

{erase: usage | tenant_id, day, queue}

{erase: trends | tenant_id, step, at}

{erase: keys | tenant_id, kind, key}

{erase: labels | tenant_id, kind, value, job_id}

{erase: calendar_users | tenant_id, name, job_id}

{erase: calendars | tenant_id, name}

{erase: suspects | tenant_id, task, job_id}

{erase: breakers | tenant_id, target}

{erase: attempts | tenant_id, target, at}

{erase: queues | tenant_id, name}

{erase: stream_queues | tenant_id, queue, generation}

{erase: workers | id}

{erase: past_workers | id}

{erase: issuers | tenant_id, name}

{erase: tenant_secrets | tenant_id, name}

{erase: signing_secrets | tenant_id, id}

-- erase_lanes: remove some sleeping lanes of a tenant
delete from lanes where id in (select id from lanes where tenant_id = :tenant_id and not awake limit :batch);

-- template of_limits(table, key)
-- erase_{table}: remove some rows of a tenant's limits
delete from {table} where ({key}) in (
    select {key} from limits l join {table} h on h.limit_id = l.id where l.tenant_id = :tenant_id limit :batch);
-- end

{of_limits: holds | limit_id, run_id}

{of_limits: starts | limit_id, until}

-- erase_history: remove some attempts of a tenant
delete from history where rowid in (select rowid from history where tenant_id = :tenant_id limit :batch) returning run_id;
-- As `lower_usage_place`.
update usage_place set row = min(row, (select coalesce(max(rowid), 0) from history));
