-- The audit log.

create or replace function duetime.refuse_to_rewrite() returns trigger language plpgsql as $$
begin
    raise exception 'the audit log is only added to';
end $$;
