-- put_bulk: store a bulk action
insert into duetime.bulk_actions (id, tenant_id, body, key_id, actor, errors, created_at)
values (:id, :tenant_id, :body, :key_id, :actor, :errors, duetime.now());

-- trim_bulks: of a tenant's bulk actions that are over, remove all but the newest
delete from duetime.bulk_actions where tenant_id = :tenant_id and finished_at is not null and id in (
    select b.id from duetime.bulk_actions b where b.tenant_id = :tenant_id and b.finished_at is not null
    order by b.id desc limit 1000 offset :kept);

-- list_bulks: the bulk actions of a tenant, newest first; or one of them
select id, tenant_id, body, key_id, actor, below, done, skipped, failed, errors, created_at, finished_at, stopped
from duetime.bulk_actions where tenant_id = :tenant_id and (:id::uuid is null or id = :id)
order by tenant_id, id desc limit :limit;

-- stop_bulk: end a bulk action where it is
update duetime.bulk_actions set stopped = true, finished_at = duetime.now()
where tenant_id = :tenant_id and id = :id and finished_at is null;

-- take_bulk: reserve the bulk action that was left alone for longest
update duetime.bulk_actions set holder = :holder, held_until = duetime.now() + :period::interval
where id = (
    select b.id from duetime.bulk_actions b where b.finished_at is null and b.held_until <= duetime.now()
    order by b.held_until limit 1 for update skip locked)
returning id, tenant_id, body, key_id, actor, below, done, skipped, failed, errors, created_at, finished_at, stopped;

-- keep_bulk: add a batch to a bulk action; nothing if the holder has lost it, or it was stopped
update duetime.bulk_actions
set below = :below, done = done + :done, skipped = skipped + :skipped, failed = failed + :failed,
    errors = coalesce(:errors::bytea, errors), finished_at = case when :finished::boolean then duetime.now() end,
    held_until = duetime.now() + :period::interval
where tenant_id = :tenant_id and id = :id and holder = :holder and finished_at is null;

-- leave_bulk: let any server continue a bulk action
update duetime.bulk_actions set holder = null, held_until = duetime.now() + :wait::interval
where tenant_id = :tenant_id and id = :id and holder = :holder and finished_at is null;
