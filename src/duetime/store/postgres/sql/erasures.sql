-- template erase(table)
-- erase_{table}: remove some rows of a tenant
delete from duetime.{table} where ctid = any(array(
    select ctid from duetime.{table} where tenant_id = :tenant_id limit :batch));
-- end

{erase: sources}

{erase: bulk_actions}

{erase: checkins}

{erase: alerts}

{erase: subscriptions}

{erase: handovers}

{erase: runs}

{erase: usage}

{erase: trends}

{erase: keys}

{erase: labels}

{erase: calendar_users}

{erase: calendars}

{erase: suspects}

{erase: breakers}

{erase: attempts}

{erase: queues}

{erase: stream_queues}

{erase: workers}

{erase: past_workers}

{erase: issuers}

{erase: tenant_secrets}

{erase: signing_secrets}

-- erase_lanes: remove some sleeping lanes of a tenant, and what asks for lanes
with asked as (delete from duetime.lane_requests where tenant_id = :tenant_id)
delete from duetime.lanes where ctid = any(array(
    select ctid from duetime.lanes where tenant_id = :tenant_id and not awake limit :batch));

-- template of_limits(table)
-- erase_{table}: remove some rows of a tenant's limits
delete from duetime.{table} where ctid = any(array(
    select h.ctid from duetime.limits l join duetime.{table} h on h.limit_id = l.id where l.tenant_id = :tenant_id
    limit :batch));
-- end

{of_limits: holds}

{of_limits: starts}

-- erase_history: remove the attempts of some runs of a tenant; archived days have so many rows fewer
with gone as (
    delete from duetime.history where tenant_id = :tenant_id and run_id = any(array(
        select run_id from duetime.history where tenant_id = :tenant_id limit :batch))
    returning run_id, finished_at
),
noted as (
    update duetime.archive_days d set rows = d.rows - g.count
    from (select floor(extract(epoch from finished_at) / 86400)::int as day, count(*) from gone group by 1) g
    where d.day = g.day
),
counted as (
    update duetime.usage_days d set rows = d.rows - g.count
    from (select floor(extract(epoch from finished_at) / 86400)::int as day, count(*) from gone group by 1) g
    where d.day = g.day
)
select run_id from gone;
