"""The shop's own data, in an SQLite file. No task queue is mentioned here."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

TABLES = """
create table if not exists payments (number integer primary key, amount integer, attempts integer);
create table if not exists shipments (number integer primary key, courier text);
create table if not exists mails (recipient text, subject text, unique (recipient, subject));
create table if not exists thumbnails (picture text, width integer, unique (picture, width));
create table if not exists galleries (pictures integer);
create table if not exists rates (currency text primary key, rate real);
create table if not exists reports (day text primary key, turnover integer);
create table if not exists carts (number integer primary key, expired integer);
"""


@contextmanager
def opened() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(os.environ["SHOP_DATABASE"], timeout=30)) as connection, connection:
        connection.executescript(TABLES)
        yield connection


class BankBusy(Exception):
    """The bank asks to try again."""


def pay(number: int, amount: int, attempt: int) -> None:
    """The bank accepts an odd order at the second attempt."""
    if number % 2 and attempt == 1:
        raise BankBusy(f"order {number}")
    with opened() as connection:
        connection.execute("insert or replace into payments values (?, ?, ?)", (number, amount, attempt))
