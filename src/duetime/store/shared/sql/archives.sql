-- claim_archive_day: claim a day that is to be archived, if it is free; a day that was archived before gets a new pass
insert into duetime.archive_days (day, pass_no, claimant, claimed_until) values (:day, 1, :claimant, :until)
on conflict (day) do update set claimant = excluded.claimant, claimed_until = excluded.claimed_until,
    pass_no = archive_days.pass_no + (case when archive_days.archived_at is null then 0 else 1 end),
    archived_at = null, released_at = null, restored_until = null
where (archive_days.claimed_until is null or archive_days.claimed_until < :at)
    and (archive_days.archived_at is null or archive_days.archived_at < :seen_at)
returning pass_no;

-- renew_archive_day: keep the claim of a day
update duetime.archive_days set claimed_until = :until where day = :day and claimant = :claimant and pass_no = :pass_no;

-- hold_archive_day: whether a claim holds, locked until the transaction ends
select day from duetime.archive_days where day = :day and claimant = :claimant and pass_no = :pass_no
    and archived_at is null for update;

-- add_archive_parts: record files
insert into duetime.archive_parts (tenant_id, day, name, rows, read, bytes, checksum, first_run, last_run, pass_no,
    expires, keys)
values (:tenant_id, :day, :name, :rows, :read, :bytes, :checksum, :first_run, :last_run, :pass_no, :expires, :keys)
on conflict (tenant_id, day, name) do update set pass_no = excluded.pass_no, read = excluded.read;

-- finish_archive_day: record that a day is archived
update duetime.archive_days set archived_at = :at, rows = :rows, mark = :mark, claimant = null, claimed_until = null,
    dropped_at = null, problem = null
where day = :day and claimant = :claimant and pass_no = :pass_no and archived_at is null;

-- give_up_archive_day: end a claim without success
update duetime.archive_days set claimant = null, claimed_until = null, problem = :problem
where day = :day and claimant = :claimant and pass_no = :pass_no;

-- release_archive_day: allow the removal of a day's rows
update duetime.archive_days set released_at = :at, problem = null
where day = :day and pass_no = :pass_no and archived_at is not null;

-- reopen_archive_day: archive a day again
update duetime.archive_days set archived_at = null, released_at = null, pass_no = pass_no + 1, problem = :problem
where day = :day and archived_at is not null;

-- all_archive_days: the state of all days
select day, pass_no, archived_at, rows, released_at, removed_at, restored_until, problem from duetime.archive_days
order by day;

-- forget_archive_days: forget days that were removed a while ago and have no files
delete from duetime.archive_days where removed_at < :before and claimant is null
    and (dropped_at is not null or mark is not null) and not exists (
    select 1 from duetime.archive_parts p where p.day = archive_days.day);

-- archive_parts_of_day: the files of a day
select tenant_id, day, name, rows, read, bytes, checksum, first_run, last_run, pass_no, expires, keys
from duetime.archive_parts where day = :day and (:tenant_id::integer is null or tenant_id = :tenant_id)
order by tenant_id, first_run, name;

-- archive_parts_between: files that may hold runs between two ids, those with the newest runs first
select tenant_id, day, name, rows, read, bytes, checksum, first_run, last_run, pass_no, expires, keys
from duetime.archive_parts
where tenant_id = :tenant_id and last_run >= :lowest and first_run < :before
    and (case when :day::integer is null then removed else day = :day end)
order by last_run desc, name limit :limit;

-- archived_tenant_days: what each tenant and day has in files
select tenant_id, day, cast(sum(rows) as bigint) as rows, cast(sum(bytes) as bigint) as bytes, count(*) as count, min(expires) as expires
from duetime.archive_parts where day < :before and (:tenant_id::integer is null or tenant_id = :tenant_id)
group by tenant_id, day order by day desc, tenant_id limit :limit;

-- expired_archive_parts: files that are to be deleted
select tenant_id, day, name, rows, read, bytes, checksum, first_run, last_run, pass_no, expires, keys
from duetime.archive_parts where expires <= :day and removed order by expires limit :limit;

-- forget_archive_parts: remove files from the index
delete from duetime.archive_parts where tenant_id = :tenant_id and day = :day and name = :name;

-- keys_in_archive: the keys of encrypted content in files
select keys as name, count(*) as count from duetime.archive_parts where keys <> '' group by keys;

-- note_restore: keep the rows of a day for a while; then they are compared with the files again
update duetime.archive_days set restored_until = :until, released_at = null, mark = null where day = :day and archived_at is not null;

-- lanes_of_rows: the lanes that rows of history name
select id as lane_id, tenant_id, queue, tier, task from duetime.lanes where id = any(:ids::integer[]);
