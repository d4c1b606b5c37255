-- put_issuer: create or replace an issuer of tokens
insert into duetime.issuers (tenant_id, name, id, body, created_at, changed_at)
values (:tenant_id, :name, :id, :body, duetime.now(), duetime.now())
on conflict (tenant_id, name) do update set body = excluded.body, changed_at = excluded.changed_at;

-- list_issuers: the issuers of a tenant, or one of them
select id, tenant_id, body, created_at, changed_at from duetime.issuers
where tenant_id = :tenant_id and (:name::text is null or name = :name) order by name;

-- delete_issuer: remove an issuer; its tokens are worthless from then on
delete from duetime.issuers where tenant_id = :tenant_id and name = :name;
