-- rules: what a claim must know: weights of tenants, limits that are set, suspects, and whether there are stream queues
select RuleKind.WEIGHT::smallint as kind, id as tenant_id, '' as name, weight, null::float8 as age from duetime.tenants
where weight <> 100
union all
select LimitKind.TENANT, id, '', null, null from duetime.tenants where running_runs is not null
union all
select kind, tenant_id, name, null, null from duetime.limits
where kind in (LimitKind.QUEUE, LimitKind.TARGET) and (running is not null or rate is not null)
union all
select case when job_id = '00000000-0000-0000-0000-000000000000' then RuleKind.SUSPECT_TASK
    else RuleKind.SUSPECT_JOB end, tenant_id, task, losses,
    extract(epoch from duetime.clock() - lost_at)::float8
from duetime.suspects
union all
select RuleKind.STREAMS, 0, '', null, null where exists (select 1 from duetime.stream_queues);
