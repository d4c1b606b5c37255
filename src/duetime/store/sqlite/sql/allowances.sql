-- token_bucket: what a bucket held, and when
select level, filled_at from token_buckets where tenant_id = :tenant_id and key_id = :key_id;

-- take_tokens: what is left of a bucket
insert into token_buckets (tenant_id, key_id, level, filled_at, full_at)
values (:tenant_id, :key_id, :level, :now, :full_at)
on conflict (tenant_id, key_id) do update set level = excluded.level, filled_at = excluded.filled_at,
    full_at = excluded.full_at;
