"""The `duetime` command, as people and scripts meet it: what it prints, and its exit codes."""

import re
import sqlite3
import subprocess
import sys
from base64 import b64encode
from contextlib import closing
from pathlib import Path

import pytest

from duetime import InvalidInput, __version__
from duetime.cli.app_loader import load_object
from tests.support.command import Command, only_line, run
from tests.support.working import ENCRYPTION

COMMANDS = ["up", "server", "worker", "migrate", "doctor"]
HELLO = "examples.hello:app"
NOBODY = "postgresql://nobody@127.0.0.1:1/nothing"


def test_help_and_version(tmp_path: Path) -> None:
    code, shown = run(tmp_path, "--help")
    assert code == 0
    assert all(f" {name} " in shown.stdout for name in COMMANDS)
    code, shown = run(tmp_path, "--version")
    assert (code, shown.stdout) == (0, f"duetime {__version__}\n")
    code, shown = run(tmp_path, "fly")
    assert (code, shown.stdout) == (2, "")
    assert "No such command 'fly'" in shown.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(tmp_path: Path, name: str) -> None:
    code, shown = run(tmp_path, name, "--help")
    assert code == 0
    assert f"Usage: python -m duetime.cli {name} [OPTIONS]" in shown.stdout
    for option in ("--config", "--database-url", "--data-dir", "--json", "--help"):
        assert option in shown.stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("examples.hello", "app: 'examples.hello' is not the name of an app (module:attribute, such as shop.jobs:app)"),
        ("examples.hello:", "app: 'examples.hello:' is not the name of an app"),
        ("no.such:app", "app: no module 'no.such' found (run the command in the folder that contains it)"),
        ("examples.no_such:app", "app: no module 'examples.no_such' found"),
        ("examples.hello:application", "app: examples.hello has no 'application' (it has: app)"),
        (
            "examples.hello:duetime",
            "app: examples.hello:duetime is module, not a duetime.App (give examples.hello:app)",
        ),
        ("json:loads", "app: json:loads is function, not a duetime.App (json contains no App: create one, app = "),
        ("json:app", "app: json has no 'app' (it contains no App)"),
    ],
)
def test_an_app_that_is_not_there(tmp_path: Path, name: str, message: str) -> None:
    code, failed = run(tmp_path, "worker", name)
    assert code == 2
    assert only_line(failed).removeprefix("error").strip().startswith(message)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("jobs.py:main", "give jobs:main"),
        ("./jobs:app", "give jobs:app"),
        ("src/jobs.py:app", "give src.jobs:app"),
        ("jobs/app.py", "give jobs.app:app"),
        ("jobs/__init__.py:app", "give jobs:app"),
        ("../shop/jobs.py:app", "run the command in the folder ../shop, and give jobs:app"),
        ("/srv/jobs.py:app", "run the command in the folder /srv, and give jobs:app"),
        (f"{Path.cwd()}/src/jobs.py:app", "give src.jobs:app"),
    ],
)
def test_the_path_of_a_file_is_answered_with_the_name_of_its_module(name: str, remedy: str) -> None:
    with pytest.raises(InvalidInput, match="is a path, not the name of a module") as refused:
        load_object(name, "shop.jobs:app")
    assert refused.value.remedy == remedy


def test_a_server_without_a_database_asks_for_one_first(tmp_path: Path) -> None:
    code, failed = run(tmp_path, "server")
    assert (code, "database_url: no database is given" in only_line(failed)) == (2, True)
    assert "DUETIME_DATABASE_URL" in only_line(failed) and "duetime up" in only_line(failed)


def test_a_celery_app_is_answered_with_the_app_that_runs_its_tasks(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "import duetime\nfrom duetime.celery import Celery\n\njobs = duetime.App()\napp = Celery('shop', jobs)\n"
    )
    for command in ("up", "worker", "doctor"):
        code, failed = run(tmp_path, command, "shop:app")
        assert code == 2
        assert only_line(failed).endswith("app: shop:app is Celery, not a duetime.App (give shop:jobs)")
    (tmp_path / "old.py").write_text("class Celery: ...\n\n\napp = Celery()\n")
    code, failed = run(tmp_path, "up", "old:app")
    assert (code, "jobs = duetime.App(), and give old:jobs: see docs/from-celery.md" in only_line(failed)) == (2, True)


def test_the_reason_of_a_failed_import_is_not_cut(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(f"raise ValueError('{'so ' * 100}the end')\n")
    code, failed = run(tmp_path, "worker", "shop:app")
    assert (code, failed.stderr.splitlines()[-1].endswith("so the end")) == (2, True)


def test_an_app_whose_import_fails_shows_where(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import shop_that_is_not_there\n")
    code, failed = run(tmp_path, "worker", "shop:app")
    assert code == 2
    *frames, line = failed.stderr.splitlines()
    assert "shop.py" in frames[0] and "ModuleNotFoundError: No module named 'shop_that_is_not_there'" in frames[-1]
    assert line.endswith("app: shop cannot be imported: ModuleNotFoundError: No module named 'shop_that_is_not_there'")
    assert len(frames) == 3, "nothing of typer and importlib"
    (tmp_path / "shop.py").write_text("import duetime\n\napp = = duetime.App()\n")
    code, failed = run(tmp_path, "doctor", "shop:app", "--json")
    assert (code, "app = = duetime.App()" in failed.stderr) == (2, True)
    assert failed.lines[0]["message"].startswith("shop cannot be imported: SyntaxError: invalid syntax")
    (tmp_path / "stock.py").write_text(
        "import duetime\n\napp = duetime.App()\n\n\n@app.task(timeout='soon')\ndef t(): ...\n"
    )
    (tmp_path / "shop.py").write_text("from stock import app\n")
    code, failed = run(tmp_path, "worker", "shop:app")
    assert code == 2 and "stock.py" in failed.stderr and "line 6" in failed.stderr
    (tmp_path / "shop.py").write_text("import duetime\napp = duetime.App()\n")
    code, failed = run(tmp_path, "worker", "shop:app")
    assert (code, "app: shop:app has no tasks (decorate a function with @app.task; " in only_line(failed)) == (2, True)


def test_an_error_in_a_start_hook_names_the_hook_and_shows_only_its_frames(tmp_path: Path) -> None:
    shop = tmp_path / "shop.py"
    hook = "import duetime\n\napp = duetime.App()\n\n\n@app.task\ndef count() -> None: ...\n\n\n"
    hook += "@app.on_start\nasync def plan() -> None:\n    "
    shop.write_text(hook + "await count.bind().schedule(cron='0 9 * * *', tz='Europe/Berln', key='daily')\n")
    code, failed = run(tmp_path, "up", "shop:app")
    place = f"the start hook plan ({shop}, line 12)"
    *_, line = failed.stderr.splitlines()
    assert (code, "Traceback" in failed.stderr) == (2, False)
    assert line.startswith(f"error  {place}: tz: ")
    code, failed = run(tmp_path, "up", "shop:app", "--json")
    assert (code, failed.lines[-1]["field"], failed.lines[-1]["place"]) == (2, "tz", place)
    shop.write_text(hook + "{}['missing']\n")
    code, failed = run(tmp_path, "up", "shop:app")
    *frames, line = failed.stderr[failed.stderr.index("Traceback") :].splitlines()
    assert (code, line) == (1, f"error  {place} failed: KeyError: 'missing'")
    assert [each.strip() for each in frames if each.startswith("  File")] == [f'File "{shop}", line 12, in plan']


def test_a_misspelt_setting_is_refused(tmp_path: Path) -> None:
    code, failed = run(tmp_path, "doctor", environ={"DUETIME_DATABSE_URL": NOBODY})
    assert code == 2
    assert "the variable DUETIME_DATABSE_URL is not a setting (did you mean DUETIME_DATABASE_URL?)" in only_line(failed)
    code, failed = run(tmp_path, "doctor", "--json", environ={"DUETIME_LEASE": "soon"})
    assert (code, failed.lines[0]["error"], failed.lines[0]["field"]) == (2, "SettingsError", "lease")
    (tmp_path / "duetime.toml").write_text("slts = 7\n")
    code, failed = run(tmp_path, "up")
    assert (code, "did you mean slots?" in only_line(failed)) == (2, True)


def test_a_database_that_cannot_be_reached(tmp_path: Path) -> None:
    environ = {"DUETIME_DATABASE_URL": NOBODY}
    code, failed = run(tmp_path, "migrate", environ=environ)
    assert (code, "the database 127.0.0.1:1/nothing cannot be used now" in only_line(failed)) == (3, True)
    code, found = run(tmp_path, "doctor", environ=environ)
    assert (code, found.stderr) == (3, "")
    assert found.stdout.startswith("✗ database     the database 127.0.0.1:1/nothing cannot be used now")


@pytest.mark.parametrize("arguments", [("up",), ("server",), ("worker", HELLO)])
def test_what_runs_until_it_is_stopped_waits_for_its_database(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    words = "the database 127.0.0.1:1/nothing cannot be used now"
    environ = {"DUETIME_DATABASE_URL": NOBODY, "DUETIME_ENCRYPTION_KEYS": ENCRYPTION}
    with Command(tmp_path, *arguments, environ=environ) as waiting:
        waiting.until(lambda command: words in command.stderr)
        assert waiting.stop() == 0
    assert "retrying until it is available" in waiting.stderr
    assert "Traceback" not in waiting.stderr


@pytest.mark.parametrize("arguments", [("server",), ("worker", "--targets")])
def test_what_signs_does_not_start_without_an_encryption_key(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, failed = run(tmp_path, *arguments, environ={"DUETIME_DATABASE_URL": NOBODY})
    assert code == 2
    assert "DUETIME_ENCRYPTION_KEYS" in only_line(failed) and "duetime encryption new-key" in only_line(failed)


def test_a_worker_without_an_address_does_not_start_on_a_file_of_its_own(tmp_path: Path) -> None:
    code, failed = run(tmp_path, "worker", HELLO)
    assert (code, "DUETIME_DATABASE_URL" in failed.stderr, "--embedded" in failed.stderr) == (2, True, True)
    assert not (tmp_path / "duetime-data").exists()
    code, failed = run(tmp_path, "worker", HELLO, "--embedded", "--database-url", NOBODY)
    assert code == 2
    assert f"embedded: the address {NOBODY} is given too (remove one of them)" in only_line(failed)


def test_an_error_for_scripts(tmp_path: Path) -> None:
    code, failed = run(tmp_path, "migrate", "--json", "--database-url", NOBODY)
    (error,) = failed.lines
    assert (code, error["error"], failed.stderr) == (3, "StoreUnavailable", "")
    assert error["message"].startswith("the database 127.0.0.1:1/nothing cannot be used now")


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    secret = "postgresql://nobody:hunter2@127.0.0.1:1/nothing"
    for arguments in (("doctor",), ("migrate", "--json")):
        _, failed = run(tmp_path, *arguments, "--database-url", secret)
        assert "hunter2" not in failed.stdout + failed.stderr


@pytest.mark.parametrize("arguments", [("server",), ("worker", HELLO)])
def test_a_database_without_a_schema(tmp_path: Path, database: str, arguments: tuple[str, ...]) -> None:
    environ = {"DUETIME_ENCRYPTION_KEYS": ENCRYPTION}
    code, failed = run(tmp_path, *arguments, "--database-url", database, environ=environ)
    assert code == 4
    assert "has no duetime schema (run: duetime migrate)" in only_line(failed)


def test_doctor_finds_that_there_is_no_schema(tmp_path: Path, database: str) -> None:
    code, found = run(tmp_path, "doctor", "--json", "--database-url", database)
    last = found.lines[-1]
    assert (code, last["check"], last["status"], last["remedy"]) == (4, "schema", "problem", "run: duetime migrate")


def test_migrate_twice_and_two_at_once(tmp_path: Path, database: str) -> None:
    environ = {"DUETIME_DATABASE_URL": database}
    with (
        Command(tmp_path / "a", "migrate", "--json", environ=environ) as one,
        Command(tmp_path / "b", "migrate", "--json", environ=environ) as two,
    ):
        assert (one.ended(), two.ended()) == (0, 0)
    version = one.lines[0]["version"]
    assert sorted(one.lines[0]["applied"] + two.lines[0]["applied"]) == list(range(1, version + 1))
    code, again = run(tmp_path, "migrate", environ=environ)
    assert (code, again.stdout) == (0, f"the schema is at version {version}\n")
    code, checked = run(tmp_path, "doctor", environ=environ)
    assert (code, checked.stderr, "✗ durability   fsync is off" in checked.stdout) == (1, "", True), checked
    for line in (r"✓ database +PostgreSQL \d+", rf"✓ schema +version {version}\n", "! workers +0 alive"):
        assert re.search(line, checked.stdout), checked.stdout
    assert "→ start one: duetime worker MODULE:APP" in checked.stdout


def test_doctor_shows_no_secret(tmp_path: Path) -> None:
    secrets = {
        "DUETIME_SMTP_URL": "smtps://me:hunter2@mail.example.com",
        "DUETIME_KEY": "hunter2",
        "DUETIME_ENCRYPTION_KEYS": f"one:{b64encode(b'hunter2 hunter2 hunter2 hunter2!').decode()}",
        "DUETIME_PUBLIC_URL": "https://me:hunter2@jobs.example.com",
    }
    for form in ((), ("--json",)):
        code, shown = run(tmp_path, "doctor", "--settings", *form, environ=secrets)
        assert (code, "smtps://me:***@mail.example.com" in shown.stdout) == (0, True), shown
        assert "hunter2" not in str(shown) and secrets["DUETIME_ENCRYPTION_KEYS"][4:] not in str(shown)


def test_doctor_shows_settings_and_tasks(tmp_path: Path) -> None:
    code, shown = run(tmp_path, "doctor", HELLO, "--settings", "--data-dir", "[odd] folder")
    assert code == 0
    assert "examples.hello.flaky, examples.hello.greet" in shown.stdout
    assert "[odd] folder" in shown.stdout
    assert "max payload" in shown.stdout
    code, shown = run(tmp_path, "doctor", HELLO, "--settings", "--json", environ={"DUETIME_SLOTS": "7"})
    assert (code, shown.lines[0]["check"], shown.lines[-1]["values"]["slots"]) == (0, "app", 7)


def _files(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def findings(folder: Path) -> dict[str, dict[str, str]]:
    code, checked = run(folder, "doctor", "--json")
    assert code == 0, checked
    return {line["check"]: line for line in checked.lines}


def test_doctor_changes_nothing(tmp_path: Path) -> None:
    found = findings(tmp_path)
    assert found["schema"]["found"].startswith("none yet")
    assert "duetime up" in found["database"]["remedy"] and found["disk"]["status"] == "ok"
    assert _files(tmp_path / "duetime-data") == {}, "no file is made by looking for it"
    _, migrated = run(tmp_path, "migrate", "--json")
    before = _files(tmp_path / "duetime-data")
    found = findings(tmp_path)
    assert found["schema"]["found"] == f"version {migrated.lines[0]['version']}"
    assert found["database"]["found"].endswith("no process uses it")
    assert _files(tmp_path / "duetime-data") == before


def test_doctor_leaves_an_older_schema_as_it_is_and_refuses_a_newer_one(tmp_path: Path) -> None:
    _, migrated = run(tmp_path, "migrate", "--json")
    version = migrated.lines[0]["version"]
    with closing(sqlite3.connect(tmp_path / "duetime-data" / "duetime.db")) as file:
        file.execute(f"update schema_versions set version = {version - 1} where version = {version}")
        file.commit()
        assert findings(tmp_path)["schema"]["found"] == f"version {version - 1}"
        assert file.execute("select max(version) from schema_versions").fetchone() == (version - 1,)
        file.execute("insert into schema_versions values (99, 99, 0)")
        file.commit()
    code, failed = run(tmp_path, "doctor")
    assert (code, "install a newer duetime" in failed.stdout) == (4, True)


def test_doctor_says_when_the_file_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "duetime-data").mkdir()
    (tmp_path / "duetime-data" / "duetime.db").write_text("this is no database" * 100)
    code, failed = run(tmp_path, "doctor")
    assert (code, "is not a duetime database" in failed.stdout) == (3, True)
    (tmp_path / "file").write_text("")
    code, failed = run(tmp_path, "doctor", "--data-dir", "file")
    assert (code, "cannot be created" in failed.stdout) == (3, True)


@pytest.mark.parametrize(("arguments", "loaded"), [(["--version"], []), (["jobs", "--help"], ["jobs"])])
def test_a_command_loads_no_other_commands(arguments: list[str], loaded: list[str]) -> None:
    program = f"""
import sys
from duetime.cli.main import COMMANDS, application_for
application_for({arguments})({arguments}, standalone_mode=False)
print(sorted({{module for module, _ in COMMANDS.values() if f"duetime.cli.{{module}}" in sys.modules}}))
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1] == str(loaded)
