-- hold_runs_before: of these runs, those that are due and have not started, held unless another transaction holds them
select r.id, r.due_at from duetime.runs r
where r.id = any(:ids::uuid[]) and r.due_at <= duetime.now() and r.worker_id is null and r.attempt = 0 and r.lost = 0
    and not r.manual and (r.fence = 0 or r.checkpoint is null and (
        select 1 from duetime.history h where h.tenant_id = r.tenant_id and h.run_id = r.id limit 1) is null)
order by uuid_send(r.id) for update skip locked;

-- withdraw_runs_before: remove runs that are held
delete from duetime.runs where id = any(:ids::uuid[]);
