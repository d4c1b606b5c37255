-- prune_sessions: remove sessions that are over
delete from duetime.sessions where id in (
    select id from duetime.sessions where expires_at < :before::timestamptz order by expires_at limit :batch
    for update skip locked);

-- prune_login_links: remove links that were not used in time
delete from duetime.login_links where hash in (
    select hash from duetime.login_links where expires_at < :before::timestamptz order by expires_at limit :batch
    for update skip locked);

-- prune_deleted_jobs: forget jobs that were deleted so long ago that nothing of them is left
delete from duetime.deleted_jobs where job_id in (
    select job_id from duetime.deleted_jobs where deleted_at < :before::timestamptz order by deleted_at limit :batch
    for update skip locked);

-- prune_dead_letters: remove dead letters that were not replayed for long
delete from duetime.dead_letters where run_id in (
    select run_id from duetime.dead_letters where died_at < :before::timestamptz order by died_at limit :batch
    for update skip locked);
