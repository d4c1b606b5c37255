-- The audit log.

create or replace function duetime.refuse_to_rewrite() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' and exists (
        select 1 from duetime.erasures e
        where e.tenant_id = old.tenant_id and e.started_at is not null and e.finished_at is null)
    then
        return old;
    end if;
    raise exception 'the audit log is only added to';
end $$;
