"""A database that tests use one after the other is for each of them as if it were new."""

from collections.abc import Iterator

import psycopg
import pytest

from tests.support.databases import Prepared
from tests.support.postgres import Server

SCHEMA = """
create table kept (id bigserial primary key, text text);
create table parents (id int primary key);
create table children (id int primary key, parent int references parents);
create function answer() returns int language sql as 'select 42';
create sequence numbers start 10;
insert into kept (text) values ('first'), ('second');
"""


@pytest.fixture
def prepared(postgres: Server) -> Iterator[Prepared]:
    def fill(dsn: str) -> None:
        with psycopg.connect(dsn) as session:
            session.execute(SCHEMA)

    found = Prepared(postgres, "reused", fill)
    yield found
    found.leave()
    for name in ("reused", "reused_template"):
        postgres.drop_database(name)


def oid(prepared: Prepared) -> int:
    [(found,)] = prepared.session().execute("select oid from pg_database where datname = 'reused'").fetchall()
    return int(found)


def test_rows_and_sequences_are_as_they_were(prepared: Prepared) -> None:
    with psycopg.connect(prepared.take(), autocommit=True) as session:
        before = oid(prepared)
        session.execute("delete from kept where id = 1; insert into kept (text) values ('third'), ('fourth')")
        session.execute("insert into parents values (1); insert into children values (1, 1); select nextval('numbers')")
    with psycopg.connect(prepared.take(), autocommit=True) as session:
        assert session.execute("select id, text from kept order by id").fetchall() == [(1, "first"), (2, "second")]
        assert session.execute("select * from parents, children").fetchall() == []
        assert session.execute("insert into kept (text) values ('x') returning id").fetchall() == [(3,)]
        assert session.execute("select nextval('numbers')").fetchall() == [(10,)]
        assert session.execute("show session_replication_role").fetchall() == [("origin",)]
    assert oid(prepared) == before


@pytest.mark.parametrize(
    "change",
    [
        "create table more ()",
        "alter table kept add column more int",
        "alter table kept alter column text set not null",
        "create index on kept (text)",
        "alter table children drop constraint children_parent_fkey",
        "create or replace function answer() returns int language sql as 'select 43'",
        "alter table kept enable row level security",
        "create policy all_rows on kept",
        "grant select on kept to public",
        "alter table kept set (fillfactor = 50)",
        "analyze kept",
        "create schema more",
        "drop sequence numbers",
        "alter database reused set work_mem = '1MB'",
    ],
)
def test_a_database_whose_schema_was_changed_is_made_anew(prepared: Prepared, change: str) -> None:
    with psycopg.connect(prepared.take(), autocommit=True) as session:
        before = oid(prepared)
        session.execute(change)
    with psycopg.connect(prepared.take()) as session:
        assert oid(prepared) != before
        assert session.execute("select answer()").fetchall() == [(42,)]


def test_sessions_that_were_left_in_it_are_ended(prepared: Prepared) -> None:
    left = psycopg.connect(prepared.take())
    left.execute("lock table kept")
    prepared.take()
    with pytest.raises(psycopg.OperationalError):
        left.execute("select 1")
    left.close()


def test_a_session_of_ours_that_was_ended_is_opened_again(prepared: Prepared) -> None:
    with psycopg.connect(prepared.take(), autocommit=True) as session:
        session.execute("select pg_terminate_backend(%s, 10000)", [prepared.session().info.backend_pid])
        assert prepared.session().execute("select count(*) from kept").fetchall() == [(2,)]
