-- take_tokens: take tokens from buckets; returns what each gives, and what is left
select given, levels
from duetime.take_tokens($1::integer[], $2::uuid[], $3::float8[], $4::float8[], $5::integer[], $6::integer[], $7::integer[]);
