-- has_suspects: whether anything has lost a worker of late
select exists (select 1 from duetime.suspects) as known;
