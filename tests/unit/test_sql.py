"""Both dialects say the same things under the same names."""

import re
from importlib import resources
from pathlib import Path

import pytest

from duetime.model.run import RunState
from duetime.store.postgres.schema import RELEASE
from duetime.store.shared.release import Migration, load_migrations
from duetime.store.shared.sql_text import sql_text
from duetime.store.shared.state_names import with_numbers
from duetime.store.shared.statements import SHARED, numbered, parse, shared_statements, statements
from duetime.store.sqlite.dialect import translated

POSTGRES, SQLITE, RULES = "duetime.store.postgres", "duetime.store.sqlite", "duetime.store.rules"

ONLY_POSTGRES = {
    "server_facts": "a file has no server",
    "count_bytes": "part of `count_jobs` in SQLite",
    "lock_queue": "a file has one writer, so nothing can come between two statements",
    "lock_repeat": "SQLite has one writer",
    "hold_root_keys": "SQLite has one writer",
    "clock": "an embedded store is given its clock",
    "hold_cursors": "a file has one writer, so nothing can come between two statements",
    "lock_calendar": "a file has one writer, so nothing can come between two statements",
    "hold_against_pauses": "a file has one writer, so no pause is under way",
    "hold_paused_cursors": "a file has one writer, so nothing can come between two statements",
    "lock_cursor": "a file has one writer, so nothing can come between two statements",
    "lock_notifying": "a file has one writer, so nothing can come between two statements",
    "unusable_for_new_work": "a file has one process: it asks for the tenant's state alone",
    "unusable_lanes": "a file has one process: what it knows of lanes holds",
    "lock_runs": "a file has one writer, so nothing can come between two statements",
    "restamp_runs": "a file has no marks that a claim could have moved",
    "hold_runs": "a file has one writer, so no session waits for a row",
    "hold_free_runs": "a file has one writer, so no other session holds a row",
    "claim_announced": "claims of chosen runs, lane by lane, in SQLite",
    "claim_many": "claims of one transaction, one worker after the other, in SQLite",
    "claims_before": "the same",
    "renew_leases": "renewals of one transaction, one worker after the other, in SQLite",
    "hold_runs_at_hand": "a file has one writer, so no other session holds a row",
    "held_in_transactions": "a file has one writer, so no other session holds a row",
    "take_back_registration": "a file writes the worker and its tasks in one transaction",
    "silent_sessions": "a file has no sessions that outlive their process",
    "end_abandoned": "the same",
    "mark_dead": "part of `end_runs` in SQLite",
    "hold_blocked": "a file has one writer, so nothing can come between two statements",
    "hold_graph": "a file has one writer, so nothing can come between two statements",
    "blocks_of_day": "a file has no partitions: rows are numbered",
    "pages_of_runs": "SQLite walks over runs by their ids",
    "hold_strays": "a file has one writer, so no other session holds a row",
    "leave_day_to_files": "part of `note_removed_history` in SQLite",
    "note_dropped_day": "a file has no partitions",
    "keeps_of_day": "a file has no partitions: the rows have an index",
    "note_kept_rows": "the same",
    "archive_day_again": "the same",
    "note_thinned_day": "the same",
    "begin_usage_day": "SQLite counts row by row",
    "hold_usage_day": "the same",
    "usage_days": "the same",
    "forget_usage_of_day": "the same",
    "put_usage": "the same",
    "end_usage_day": "the same",
    "counted_usage_day": "the same",
    "note_restored_usage": "the same",
    "prune_usage_days": "the same",
    "days_in_files": "part of `days_in_history` in SQLite",
    "refund_fires": "a file has one writer: a rate is charged for what was fired",
    "spent_days": "an embedded store has the clock of its process, and one table for all days",
    "find_homes": "a file has one process: it wakes a lane without asking",
    "try_lock_keys": "a file has one writer, so no key is ever held uncommitted by another",
}
ONLY_SQLITE = {
    "has_kept": "part of `keeps_of_day` in PostgreSQL",
    "prune_kept": "statements on the partition of a day in PostgreSQL",
    "remove_succeeded": "part of `succeed_runs` in PostgreSQL",
    "claim_limited": "`claim_many` of chosen runs in PostgreSQL",
    "due_in_backlog": "part of `due_cursors` in PostgreSQL",
    "backlogs": "part of `due_cursors` in PostgreSQL",
    "charge_fires": "part of `due_cursors` and `admit_fires` in PostgreSQL",
    "end_cursors": "part of `move_cursors` in PostgreSQL",
    "jobs_to_count": "SQLite counts part by part: all callers wait for its one connection",
    "runs_to_count": "the same",
    "keys_to_count": "the same",
    "count_live_runs": "part of `count_jobs` in PostgreSQL",
    "count_tasks": "a trigger in PostgreSQL, which counts once for a statement",
    "queue_limit": "part of `wake_lanes` in PostgreSQL",
    "queues_used": "part of `wake_lanes` in PostgreSQL",
    "count_runs": "PostgreSQL knows how many pages there are",
    "last_swept": "PostgreSQL walks over runs by their pages",
    "put_lane_change": "part of `wake_lanes` in PostgreSQL",
    "lanes_used": "part of `wake_lanes` in PostgreSQL",
    "quiet_lanes": "part of `tidy_lanes` in PostgreSQL",
    "lanes_of_runs": "part of `tidy_lanes` in PostgreSQL",
    "keep_lane": "part of `tidy_lanes` in PostgreSQL",
    "rest_lanes": "part of `tidy_lanes` in PostgreSQL",
    "count_jobs_to_sample": "PostgreSQL counts them while it samples them, by what its planner believes",
    "history_in_turn": "PostgreSQL drops whole days",
    "renew_lease": "part of `renew_leases` in PostgreSQL",
    "has_holds": "PostgreSQL asks whether any lane has runs with keys, inside its functions",
    "alive": "part of `claim` in PostgreSQL",
    "find_claim": "PostgreSQL learns of a claim that has happened by its primary key",
    "keep_logs": "part of `note_runs` in PostgreSQL",
    "lease_claimed": "part of `claim` in PostgreSQL",
    "keep_claim": "part of `claim` in PostgreSQL, where one statement writes to several tables",
    "exceptions": "PostgreSQL's statements return what they accepted",
    "close_claims": "part of `succeed_runs` and `end_runs` in PostgreSQL",
    "runs_of_claims": "part of `unaccounted_runs` in PostgreSQL, which knows arrays",
    "unlisted_claims": "part of `free_unlisted` in PostgreSQL, which knows arrays",
    "prune_history": "PostgreSQL drops partitions instead",
    "usage_place": "PostgreSQL counts whole days",
    "count_usage": "the same",
    "end_usage_count": "the same",
    "skip_restored_usage": "the same",
    "lower_usage_place": "the same",
    "oldest_history": "PostgreSQL has a partition for each day",
    "days_in_history": "PostgreSQL has a partition for each day",
    "tenants_of_day": "a statement on a partition, by name, in PostgreSQL",
    "count_of_day": "the same",
    "rows_of_day": "the same",
    "note_removed_history": "part of `leave_day_to_files` in PostgreSQL",
    "is_heard": "part of each statement that tells, in PostgreSQL",
    "is_served": "a function in PostgreSQL, part of `claim` and `claim_many`",
    "any_followed": "a trigger in PostgreSQL, where it costs less than here",
    "note_ends": "the same",
    "spend": "a function in PostgreSQL, part of `end_carried` and `land`",
    "landed_before": "part of `land` in PostgreSQL",
    "first_spent": "PostgreSQL drops whole days",
    "prune_spent": "the same",
    "token_bucket": "part of `take_tokens` in PostgreSQL",
}


def test_both_dialects_have_the_same_statements() -> None:
    postgres, sqlite = set(statements(POSTGRES)), set(statements(SQLITE))
    assert postgres - sqlite == set(ONLY_POSTGRES)
    assert sqlite - postgres == set(ONLY_SQLITE)
    assert not set(shared_statements()) & (postgres | sqlite), "what is shared has no version of its own"


def test_no_statement_is_the_same_in_both_dialects() -> None:
    postgres, sqlite = statements(POSTGRES), statements(SQLITE)
    named = {name for name in postgres.keys() & sqlite.keys() if ":" in postgres[name].replace("::", "")}
    same = {name for name in named if _plain(translated(postgres[name])) == _plain(sqlite[name])}
    assert same == set(), "what needs no words of its own belongs to shared/sql"


def _plain(text: str) -> str:
    return " ".join(text.split())


def test_named_parameters_are_numbered_in_the_order_of_their_first_use() -> None:
    text = """select ':no', "a:b", x::text -- :no\n/* :no */ from t where a = :a_1 and b = :b::uuid[] or c = :a_1"""
    numbers = """select ':no', "a:b", x::text -- :no\n/* :no */ from t where a = $1 and b = $2::uuid[] or c = $1"""
    assert numbered(text) == (numbers, ("a_1", "b"))
    assert numbered("select $1::int") == ("select $1::int", ())


def test_no_statement_mixes_numbered_and_named_parameters() -> None:
    for name, text in {**shared_statements(), **statements(POSTGRES)}.items():
        assert not (re.search(r"\$\d", text) and numbered(text)[1]), name


@pytest.mark.parametrize(
    "postgres, sqlite",
    [
        ("select a from duetime.t where at <= duetime.now()", "select a from t where at <= :now"),
        ("where id = :id::uuid and until > duetime.clock() - :age::interval", "where id = :id and until > :now - :age"),
        ("where name = any(:names::text[])", "where name in (select value from json_each(:names))"),
        (
            "where id = any(:ids::uuid[])",
            "where id in (select substr(:ids, at.key * 16 + 1, 16) from json_each(:ids_places) at)",
        ),
        ("on j.id = any(array[u.job_id])", "on j.id = u.job_id"),
        ("select 1 from duetime.t where a = :a for update skip locked", "select 1 from t where a = :a"),
        ("select 1 from duetime.t order by a for share", "select 1 from t order by a"),
        ("select id from duetime.t order by uuid_send(t.id) for update", "select id from t order by t.id"),
        ("set a = greatest(0, least(a, :b::int)), b = strpos(c, :d)", "set a = max(0, min(a, :b)), b = instr(c, :d)"),
        ("set scan_at = '9999-01-01Z'", "set scan_at = 253370764800000000"),
        (
            "from duetime.a left join lateral (\n    select * from duetime.b c where c.id = a.id offset 0) c on true",
            "from a left join b c on c.id = a.id",
        ),
        (
            "from duetime.a cross join lateral (select * from duetime.b c where c.id = a.id limit :cap) c where c.d",
            "from a cross join b c on c.id = a.id where c.d",
        ),
        ('where name = :name collate "C" order by name', "where name = :name order by name"),
        ("select extract(epoch from duetime.clock() - a.lost_at)::float8", "select (:now - a.lost_at) / 1e6"),
    ],
)
def test_shared_statements_are_translated_for_sqlite(postgres: str, sqlite: str) -> None:
    assert translated(postgres) == sqlite


@pytest.mark.parametrize("package", [POSTGRES, SQLITE, SHARED])
def test_every_statement_is_used(package: str) -> None:
    """A shared statement is used by what both dialects share, or by each of them."""
    common = _code(RULES) + _code(SHARED)
    users = [common + _code(POSTGRES), common + _code(SQLITE)] if package == SHARED else [common + _code(package)]
    assert [name for name in statements(package) if not all(f'"{name}"' in code for code in users)] == []


def _code(package: str) -> str:
    entries = resources.files(package).iterdir()
    return "\n".join(entry.read_text("utf-8") for entry in entries if entry.name.endswith(".py"))


def test_both_dialects_are_at_the_same_version() -> None:
    assert [migration.name for migration in load_migrations(POSTGRES)] == [
        migration.name for migration in load_migrations(SQLITE)
    ]


def test_migrations_are_numbered_without_gaps_from_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "some_release" / "migrations"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert load_migrations("some_release") == ()
    (folder / "0002_first.sql").write_text("select 1")
    (folder / "0003_second.sql").write_text("select 2")
    (folder / "README.md").write_text("not a migration")
    assert [(found.version, found.name) for found in load_migrations("some_release")] == [(2, "first"), (3, "second")]
    (folder / "0002_first.sql").rename(folder / "0004_first.sql")
    with pytest.raises(ValueError, match="not numbered from 2 without gaps"):
        load_migrations("some_release")
    (folder / "0004_first.sql").rename(folder / "2_first.sql")
    with pytest.raises(ValueError, match=r"2_first.sql is not the name of a migration"):
        load_migrations("some_release")


def test_a_migration_outside_a_transaction_is_cut_into_its_statements() -> None:
    script = """-- outside a transaction
-- Why; this is done.
create index concurrently if not exists one on duetime.jobs (task); -- with a comment
create index concurrently if not exists two
    on duetime.runs (due_at);
-- The end.
"""
    assert Migration(2, "indexes", script).outside
    assert not Migration(2, "indexes", "select 1; -- outside a transaction").outside
    first, second = Migration(2, "indexes", script).statements
    assert first.endswith("create index concurrently if not exists one on duetime.jobs (task)")
    assert second == "create index concurrently if not exists two\n    on duetime.runs (due_at)"


def test_states_are_named_in_sql() -> None:
    assert (
        with_numbers("state <> RunState.SUCCEEDED and x.RunState = 'SS.US'", "here")
        == "state <> 4 and x.RunState = 'SS.US'"
    )
    for wrong in ("RunState.SUCCEDED", "RunStates.SUCCEEDED", "RunState.Succeeded"):
        with pytest.raises(ValueError, match=rf"some.sql: {wrong} is not"):
            with_numbers(f"where state = {wrong}", "some.sql")


def test_a_template_is_written_out_where_it_is_used() -> None:
    text = "-- template is(a, b)\n{a} = {b}\n-- end\nselect {is: x | RunState.FAILED}, '{}', {is: y | 2} -- {other}\n"
    assert sql_text(text, "here") == f"select x = {RunState.FAILED.value}, '{{}}', y = 2 -- {{other}}\n"
    with pytest.raises(ValueError, match=r"some.sql: the template is has 2 parameters, not 1"):
        sql_text(text + "{is: x}", "some.sql")
    with pytest.raises(ValueError, match=r"some.sql: there is no template was"):
        sql_text(text + "{was: x | 1}", "some.sql")


def test_a_file_is_cut_at_its_headings() -> None:
    text = "-- one: the first\nselect 1\n-- a comment inside\n  + 1;\n\n-- two: the second\nselect 2;\nselect 3;\n"
    assert parse(text) == [("one", "select 1\n-- a comment inside\n  + 1"), ("two", "select 2;\nselect 3")]


def test_a_script_is_cut_into_its_statements() -> None:
    from duetime.store.sqlite.connection import split

    assert split("select 1;\nselect\n  ';' as two;\n-- done\nselect 3") == (
        "select 1;",
        "select\n  ';' as two;",
        "-- done\nselect 3",
    )
    assert split("") == ()


def test_no_cursor_is_written_below_the_mark_of_a_scanner() -> None:
    """A scanner passes over what lies below its low-water mark, so every statement stamps `scan_at` with the clock, or
    puts it out of view."""
    functions = [part for file in RELEASE.functions for part in file.script.split(";")]
    written = [
        text
        for text in (*statements(SHARED).values(), *statements(POSTGRES).values(), *functions)
        if "insert into duetime.cursors" in text or ("update duetime.cursors" in text and "scan_at =" in text)
    ]
    assert len(written) >= 8
    for text in written:
        assert re.search(r"greatest\([^()]+(?:\([^()]*\))?[^()]*, duetime\.clock\(\)\)|'9999-01-01Z'", text), text
