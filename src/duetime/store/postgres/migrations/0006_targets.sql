-- Targets: HTTP, gRPC and shell.
select 1;
