-- running_run: an attempt under way, held: in the hands of its worker, or of its receiver
select id, fence, attempt, lost, options, cancel_requested, timeout_ms, worker_id, duetime.clock() - started_at as ran_for
from duetime.runs where id = :run_id and fence = :fence and worker_id is not null for update;

-- forget_handovers: remove the deadlines of attempts that are over
delete from duetime.handovers where run_id = any(:ids::uuid[]);
