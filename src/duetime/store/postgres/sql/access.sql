-- hold_root_keys: keep other revocations of root keys waiting until the transaction ends
select pg_advisory_xact_lock(hashtextextended('duetime root keys', 0));
