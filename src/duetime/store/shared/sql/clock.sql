-- clock_seen: the database's time at this very moment, and what nodes have seen of its clock
select duetime.clock() as at, seen_at, stepped_at, trusted_at, served_at, served_since, readings, rewound_at, rewound_from,
    rewound_to
from duetime.clock_watch where one;

-- keep_trusted: from when ages are counted, while the clock shows a time; it moves back only when the clock did
update duetime.clock_watch
set trusted_at = case when trusted_at > :seen_at::timestamptz then :trusted_at::timestamptz
    else greatest(coalesce(trusted_at, :trusted_at::timestamptz), :trusted_at::timestamptz) end
where one;

-- keep_clock_seen: what a node saw, and whether the clock had stepped before that; the first reading counts as the start
update duetime.clock_watch set seen_at = :seen_at::timestamptz, readings = readings + 1,
    stepped_at = case when :stepped::boolean then :seen_at else least(coalesce(stepped_at, :seen_at), :seen_at) end
where one returning readings;

-- keep_rewind: a node found that the database had gone back, with the last reading that is lost
update duetime.clock_watch set rewound_at = :rewound_at::timestamptz, rewound_from = :rewound_from::timestamptz,
    rewound_to = seen_at
where one;

-- keep_served: a server that pings can reach is up
update duetime.clock_watch set served_at = duetime.now(),
    served_since = case when served_since is not null and served_at <= duetime.now()
        and served_at > duetime.now() - :gap::interval then served_since else duetime.now() end
where one;
