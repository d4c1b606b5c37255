-- clock_seen: the database's time at this very moment, and what nodes have seen of its clock
select duetime.clock() as at, seen_at, stepped_at, trusted_at from duetime.clock_watch where one;

-- keep_trusted: from when ages are counted, while the clock shows a time; it moves back only when the clock did
update duetime.clock_watch
set trusted_at = case when trusted_at > :seen_at::timestamptz then :trusted_at::timestamptz
    else greatest(coalesce(trusted_at, :trusted_at::timestamptz), :trusted_at::timestamptz) end
where one;
