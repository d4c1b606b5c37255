-- add_checkin: create a check-in, unless one has its name
insert into duetime.checkins (tenant_id, name, body, hash, paused, created_at)
values (:tenant_id, :name, :body, :hash, :paused, duetime.now())
on conflict (tenant_id, name) do nothing;

-- change_checkin: replace what a check-in expects; one that resumes expects its next ping from now
update duetime.checkins set body = :body, revision = revision + 1, judge_at = duetime.now(),
    counts_from = case when paused and not :paused::boolean and counts_from is not null then duetime.now()
        else counts_from end,
    started_at = case when paused and not :paused then null else started_at end,
    paused = :paused
where tenant_id = :tenant_id and name = :name;

-- pause_checkin: pause or resume a check-in
update duetime.checkins set revision = revision + 1, judge_at = duetime.now(),
    counts_from = case when paused and not :paused::boolean and counts_from is not null then duetime.now()
        else counts_from end,
    started_at = case when paused and not :paused then null else started_at end,
    paused = :paused
where tenant_id = :tenant_id and name = :name;

-- rotate_checkin: give a check-in another token
update duetime.checkins set hash = :hash where tenant_id = :tenant_id and name = :name;

-- list_checkins: a tenant's check-ins, or one of them
select tenant_id, name, body, paused, created_at, ping, pinged_at, exit_code, note, pings, started_at, succeeded_at,
    counts_from, revision, judge_at, open, reason, changed_at, version, told, message
from duetime.checkins where tenant_id = :tenant_id and (:name::text is null or name = :name) order by name;

-- delete_checkin: remove a check-in
delete from duetime.checkins where tenant_id = :tenant_id and name = :name;

-- has_checkin: whether a token is that of a check-in
select 1 as known from duetime.checkins where hash = :hash;

-- ping_checkin: a job that runs elsewhere reports
update duetime.checkins set ping = :ping, pinged_at = duetime.now(), exit_code = :exit_code, note = :note,
    pings = pings + 1, revision = revision + 1, judge_at = duetime.now(),
    started_at = case when :ping::text = 'start' then duetime.now() end,
    succeeded_at = case when :ping = 'success' then duetime.now() else succeeded_at end,
    counts_from = case when :ping = 'start' then counts_from else duetime.now() end
where hash = :hash;

-- take_checkins: reserve check-ins that may be late or were pinged, so that no other node gets them for a while
update duetime.checkins set judge_at = duetime.now() + :period::interval where (tenant_id, name) in (
    select tenant_id, name from duetime.checkins where judge_at <= duetime.now()
    order by judge_at limit :limit for update skip locked)
returning tenant_id, name, body, paused, created_at, ping, pinged_at, exit_code, note, pings, started_at, succeeded_at,
    counts_from, revision, judge_at, open, reason, changed_at, version, told, message;

-- keep_checkin: store the judgement on a check-in, unless another node has; one that was pinged meanwhile is judged again
update duetime.checkins set open = :open, reason = :reason, changed_at = :changed_at, version = :version,
    message = :message,
    counts_from = case when revision = :revision then :counts_from::timestamptz else counts_from end,
    started_at = case when revision = :revision then :started_at::timestamptz else started_at end,
    judge_at = case when revision = :revision then :judge_at::timestamptz else duetime.now() end
where tenant_id = :tenant_id and name = :name and version = :seen;

-- mark_checkin_notified: the notifications about a version are stored
update duetime.checkins set told = :version,
    judge_at = case when revision = :revision then :judge_at::timestamptz else judge_at end
where tenant_id = :tenant_id and name = :name and version = :version;
