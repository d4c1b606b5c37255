-- list_stream_queues: generations that may hold messages, and queues that went back to the store a short time ago
select s.tenant_id, s.queue, s.generation, s.address, s.settings, s.current as usable, s.changed_at,
    coalesce(q.paused_at is not null, false) or t.state <> TenantState.ACTIVE as held, duetime.clock() as at
from duetime.stream_queues s join duetime.tenants t on t.id = s.tenant_id
left join duetime.queues q on q.tenant_id = s.tenant_id and q.name = s.queue
where (:tenant_id::int is null or s.tenant_id = :tenant_id) and (not s.retired or s.changed_at > duetime.now() - :recent::interval)
order by s.tenant_id, s.queue, s.generation;

-- streams_of_queue: all generations of a queue, the newest first, locked against other nodes
select s.generation, s.address, s.current as usable, s.retired from duetime.stream_queues s
where s.tenant_id = :tenant_id and s.queue = :queue order by s.generation desc for update;

-- add_stream: begin a generation of a stream queue
insert into duetime.stream_queues (tenant_id, queue, generation, address, settings, current, changed_at)
values (:tenant_id, :queue, :generation, :address, :settings, true, duetime.clock());

-- change_stream: change what does not begin a generation
update duetime.stream_queues set settings = :settings
where tenant_id = :tenant_id and queue = :queue and generation = :generation;

-- end_stream: a generation gets no more runs
update duetime.stream_queues set current = false, changed_at = duetime.clock()
where tenant_id = :tenant_id and queue = :queue and current;

-- retire_stream: a generation was found empty
update duetime.stream_queues set retired = true
where tenant_id = :tenant_id and queue = :queue and generation = :generation and not current and not retired
    and changed_at < duetime.now() - :published::interval;

-- prune_streams: remove retired generations once nothing asks for them
delete from duetime.stream_queues where retired and changed_at < :since::timestamptz;

-- is_limited_queue: whether a queue has a limit
select exists (
    select 1 from duetime.limits where tenant_id = :tenant_id and kind = LimitKind.QUEUE and name = :queue collate "C"
        and (running is not null or rate is not null)) as known;

-- spent_from: the first day of `spent` that was not forgotten
select value from duetime.meta where name = :name;
