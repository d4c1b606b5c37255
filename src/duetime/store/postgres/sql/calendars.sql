-- lock_calendar: hold a calendar against transactions that are about to use it
select 1 from duetime.calendars where tenant_id = :tenant_id and name = :name for update;
