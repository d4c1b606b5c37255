-- take_tokens: take tokens from buckets; returns what each gives, and what is left
select given, levels
from duetime.take_tokens($1::integer[], $2::uuid[], $3::float8[], $4::float8[], $5::integer[], $6::integer[], $7::integer[]);

-- prune_buckets: remove full buckets: a bucket without a row is full
delete from duetime.token_buckets where ctid = any(array(
    select ctid from duetime.token_buckets where full_at < $1 limit $2 for update skip locked));
