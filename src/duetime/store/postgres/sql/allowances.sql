-- take_tokens: tokens out of buckets; what is given out of each, and what is left
select given, levels
from duetime.take_tokens($1::integer[], $2::uuid[], $3::float8[], $4::float8[], $5::integer[], $6::integer[], $7::integer[]);

-- prune_buckets: buckets that are full by now are as those that were never asked
delete from duetime.token_buckets where ctid = any(array(
    select ctid from duetime.token_buckets where full_at < $1 limit $2 for update skip locked));
