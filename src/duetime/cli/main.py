"""The `duetime` command.

Commands import what they use inside their functions, so that help and short commands do not load servers and stores.
"""

import sys
import traceback

import typer

from duetime.cli import (
    admin,
    archive,
    bulk_actions,
    calendars,
    checkins,
    crontab,
    doctor,
    encryption,
    export,
    graphs,
    import_commands,
    issuers,
    jobs,
    login,
    migrate,
    notifications,
    preview,
    root_key,
    run,
    runs,
    secrets,
    service,
    sessions,
    sources,
    submit,
    tail,
    usage,
    worker,
)
from duetime.text.visible import visible_lines
from duetime.version import __version__

application = typer.Typer(
    name="duetime",
    help="A durable job scheduler: runs every job on time, retries failures, survives the death of any process.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=True,
)
application.command("up")(run.up)
application.command("server")(run.server)
application.command("worker")(worker.worker)
application.command("migrate")(migrate.migrate)
application.command("root-key")(root_key.root_key)
application.command("doctor")(doctor.doctor)
application.command("preview")(preview.preview)
application.command("submit")(submit.submit)
application.command("schedule")(submit.schedule)
application.add_typer(jobs.application, name="jobs")
application.add_typer(runs.runs, name="runs")
application.add_typer(runs.dead, name="dead")
application.add_typer(bulk_actions.application, name="bulk")
application.add_typer(archive.archive, name="archive")
application.add_typer(calendars.application, name="calendars")
application.add_typer(graphs.graphs, name="graphs")
application.add_typer(secrets.application, name="secrets")
application.add_typer(service.queues, name="queues")
application.add_typer(service.breakers, name="breakers")
application.add_typer(sources.application, name="sources")
application.add_typer(notifications.subscriptions, name="subscriptions")
application.add_typer(notifications.alerts, name="alerts")
application.add_typer(checkins.application, name="checkins")
application.command("workers")(service.workers)
application.command("trends")(service.trends)
application.command("tail")(tail.tail)
application.command("import-crontab")(crontab.import_crontab)
application.command("import-beat")(import_commands.import_beat)
application.command("import-apscheduler")(import_commands.import_apscheduler)
application.add_typer(admin.tenants, name="tenants")
application.add_typer(admin.keys, name="keys")
application.add_typer(issuers.application, name="issuers")
application.add_typer(sessions.sessions, name="sessions")
application.command("login-link")(sessions.login_link)
application.command("login")(login.login)
application.command("logout")(login.logout)
application.command("whoami")(login.whoami)
application.add_typer(encryption.application, name="encryption")
application.command("export")(export.export)
application.command("usage")(usage.usage)
application.command("audit")(admin.audit)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"duetime {__version__}")
        raise typer.Exit


@application.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    pass


def main() -> None:
    try:
        application()
    except Exception:
        # Like Python's own traceback, but with untrusted text made safe for the terminal.
        sys.stderr.write(visible_lines(traceback.format_exc()))
        sys.exit(1)
