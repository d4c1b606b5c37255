-- find_answer: the stored response for a key, of a request other than a submission
select job_id, run_id, fingerprint, answer from duetime.keys
where tenant_id = :tenant_id and kind = :kind::text::"char" and key = :key;

-- put_answer: store what a key leads to
insert into duetime.keys (tenant_id, kind, key, job_id, run_id, fingerprint, answer, created_at)
values (:tenant_id, :kind::text::"char", :key, :job_id, :run_id, :fingerprint, :answer, duetime.now())
on conflict (tenant_id, kind, key) do update set run_id = excluded.run_id, created_at = excluded.created_at;

-- set_answer: store the response to a request that has begun
update duetime.keys set answer = :answer
where tenant_id = :tenant_id and kind = :kind::text::"char" and key = :key and fingerprint = :fingerprint
    and answer is null;

-- drop_answer: delete a request that has begun and had no effect
delete from duetime.keys
where tenant_id = :tenant_id and kind = :kind::text::"char" and key = :key and fingerprint = :fingerprint
    and answer is null;
