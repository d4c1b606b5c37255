"""Settings: which source wins, what is refused, and whether the message tells the reader what to mend."""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from duetime.errors import DuetimeError, SettingsError
from duetime.settings import Settings, describe, load
from tests.support import settings_doc


@pytest.fixture(autouse=True)
def _empty_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def loaded(
    toml: str | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Settings:
    if toml is not None:
        Path("duetime.toml").write_text(toml)
    return load(None, environ or {}, flags or {})


def refused(
    toml: str | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> str:
    with pytest.raises(SettingsError) as caught:
        loaded(toml, environ, flags)
    return str(caught.value)


class TestSources:
    def test_without_any_source_there_are_the_defaults(self) -> None:
        assert loaded() == Settings()
        assert loaded().port == 8420
        assert loaded().lease == timedelta(seconds=15)
        assert loaded().max_payload == 262_144
        assert loaded().processes == (os.cpu_count() or 1)

    def test_each_source_is_stronger_than_the_one_before(self) -> None:
        file, environ, flags = "port = 1", {"DUETIME_PORT": "2"}, {"port": 3}
        assert loaded(file).port == 1
        assert loaded(file, environ).port == 2
        assert loaded(file, environ, flags).port == 3

    def test_a_stronger_source_leaves_the_other_settings_alone(self) -> None:
        settings = loaded("port = 1\nslots = 7", {"DUETIME_PORT": "2", "DUETIME_THREADS": "9"}, {"host": "::1"})
        assert (settings.port, settings.slots, settings.threads, settings.host) == (2, 7, 9, "::1")

    def test_a_flag_that_is_none_and_a_variable_that_is_empty_are_not_given(self) -> None:
        assert loaded("port = 1", {"DUETIME_PORT": " "}, {"port": None}).port == 1

    @pytest.mark.parametrize("given", [{"database_url": "sqlite:///x.db"}, {"data_dir": "x"}])
    def test_a_database_replaces_a_server_that_is_named_less_directly(self, given: dict[str, str]) -> None:
        environ = {"DUETIME_URL": "http://127.0.0.1:1", "DUETIME_KEY": "k"}
        assert (loaded(environ=environ, flags=given).url, loaded(environ=environ, flags=given).key) == (None, None)
        variables = {f"DUETIME_{name.upper()}": value for name, value in given.items()}
        assert loaded('url = "http://127.0.0.1:2"', variables).url is None
        assert loaded(environ=environ, flags={**given, "url": "http://127.0.0.1:3"}).url == "http://127.0.0.1:3"
        both = loaded(environ=environ | variables)
        assert (both.url, both.key) == ("http://127.0.0.1:1", "k")

    def test_a_flag_of_zero_is_given(self) -> None:
        assert loaded("port = 1", flags={"port": 0}).port == 0

    def test_variables_of_others_and_of_the_tests_are_none_of_our_business(self) -> None:
        assert loaded(environ={"PORT": "x", "DUETIMER": "x", "DUETIME_TEST_PG_BIN": "x"}) == Settings()

    def test_what_kubernetes_tells_about_services_that_are_called_duetime_is_no_setting(self) -> None:
        told = {
            "DUETIME_SERVER_SERVICE_HOST": "10.96.7.1",
            "DUETIME_SERVER_SERVICE_PORT": "8420",
            "DUETIME_SERVER_SERVICE_PORT_HTTP": "8420",
            "DUETIME_SERVER_PORT": "tcp://10.96.7.1:8420",
            "DUETIME_SERVER_PORT_8420_TCP": "tcp://10.96.7.1:8420",
            "DUETIME_SERVER_PORT_8420_TCP_PROTO": "tcp",
            "DUETIME_SERVER_PORT_8420_TCP_ADDR": "10.96.7.1",
        }
        assert loaded(environ=told) == Settings()
        assert "DUETIME_SERVER_PORT is not a setting" in refused(environ={"DUETIME_SERVER_PORT": "8420"})

    @pytest.mark.parametrize("variable", ["DUETIME_PORT", "DUETIME_METRICS_PORT"])
    def test_a_port_that_kubernetes_wrote_over_is_told_apart_from_a_wrong_one(self, variable: str) -> None:
        message = refused(environ={variable: "tcp://10.96.7.1:8420"})
        assert "Kubernetes" in message and "enableServiceLinks: false" in message

    def test_a_named_file_is_read_instead_of_the_default_one(self, tmp_path: Path) -> None:
        Path("duetime.toml").write_text("port = 1")
        (tmp_path / "variable.toml").write_text("port = 2")
        (tmp_path / "argument.toml").write_text("port = 3")
        environ = {"DUETIME_CONFIG": "variable.toml"}
        assert load(None, environ, {}).port == 2
        assert load(tmp_path / "argument.toml", environ, {}).port == 3

    @pytest.mark.parametrize(
        ("file", "environ"),
        [(Path("missing.toml"), {}), (None, {"DUETIME_CONFIG": "missing.toml"})],
        ids=["argument", "variable"],
    )
    def test_a_named_file_has_to_exist(self, file: Path | None, environ: dict[str, str]) -> None:
        with pytest.raises(SettingsError, match=r"missing\.toml.* cannot be read: No such file"):
            load(file, environ, {})

    def test_the_variable_that_names_a_missing_file_is_named(self) -> None:
        assert "DUETIME_CONFIG" in refused(environ={"DUETIME_CONFIG": "missing.toml"})

    def test_a_broken_file_is_refused_with_the_place(self) -> None:
        assert "duetime.toml is not TOML" in refused("port = ")
        Path("duetime.toml").write_bytes(b"host = '\xff'")
        assert "duetime.toml cannot be read: not UTF-8" in refused()


class TestUnknownNames:
    def test_in_the_file(self) -> None:
        message = refused("hartbeat = '5s'")
        assert "duetime.toml sets 'hartbeat'" in message
        assert "did you mean heartbeat?" in message

    def test_in_the_environment(self) -> None:
        message = refused(environ={"DUETIME_DATABASE_URI": "sqlite:///x"})
        assert "DUETIME_DATABASE_URI is not a setting" in message
        assert "did you mean DUETIME_DATABASE_URL?" in message

    def test_an_unknown_variable_is_refused_even_when_it_is_empty(self) -> None:
        assert "did you mean DUETIME_PORT?" in refused(environ={"DUETIME_PORTS": ""})

    def test_among_the_flags(self) -> None:
        message = refused(flags={"slot": 3})
        assert "--slot is not a setting" in message
        assert "did you mean slots?" in message

    def test_a_name_like_no_other_gets_the_list(self) -> None:
        message = refused("zzz = 1")
        assert "one of database_url, direct_database_url, replica_url" in message


class TestValues:
    @pytest.mark.parametrize(
        ("name", "text", "value"),
        [
            ("database_url", "postgresql://me@host:5433/db", "postgresql://me@host:5433/db"),
            ("database_url", "postgres:///db?host=/run/postgresql", "postgres:///db?host=/run/postgresql"),
            ("database_url", "postgresql://me@a:1,b/db", "postgresql://me@a:1,b/db"),
            ("database_url", "postgresql://[::1]:1,[::2]:2/db", "postgresql://[::1]:1,[::2]:2/db"),
            ("database_url", "postgresql:///db?host=a,b&port=1,2", "postgresql:///db?host=a,b&port=1,2"),
            (
                "database_url",
                "postgresql://a,b/db?target_session_attrs=primary",
                "postgresql://a,b/db?target_session_attrs=primary",
            ),
            ("database_url", "sqlite:///here.db", "sqlite:///here.db"),
            ("data_dir", "some/where", Path("some/where")),
            ("data_dir", "~/jobs", Path.home() / "jobs"),
            ("port", "0", 0),
            ("slots", " 12 ", 12),
            ("queues", "mail, reports", ("mail", "reports")),
            ("heartbeat", "1500ms", timedelta(seconds=1.5)),
            ("grace", "0", timedelta(0)),
            ("retention", "P7D", timedelta(days=7)),
            ("max_payload", "1MiB", 1_048_576),
            ("max_payload", "512", 512),
            ("max_result", "10 KiB", 10_240),
            ("log_level", "WARNING", "warning"),
            ("log_format", "json", "json"),
        ],
    )
    def test_a_variable_is_read(self, name: str, text: str, value: object) -> None:
        assert getattr(loaded(environ={f"DUETIME_{name.upper()}": text}), name) == value

    @pytest.mark.parametrize(
        ("name", "toml", "value"),
        [
            ("queues", '["mail", "reports"]', ("mail", "reports")),
            ("queues", "[]", ()),
            ("queues", '"mail"', ("mail",)),
            ("heartbeat", "0.5", timedelta(milliseconds=500)),
            ("heartbeat", "2", timedelta(seconds=2)),
            ("max_payload", "1024", 1024),
        ],
    )
    def test_a_file_uses_the_types_of_toml(self, name: str, toml: str, value: object) -> None:
        assert getattr(loaded(f"{name} = {toml}"), name) == value

    def test_a_flag_may_hold_the_value_itself(self) -> None:
        flags = {"data_dir": Path("d"), "lease": timedelta(minutes=1), "queues": ("q",)}
        settings = loaded(flags=flags)
        assert (settings.data_dir, settings.lease, settings.queues) == tuple(flags.values())

    @pytest.mark.parametrize(
        ("name", "text", "reason"),
        [
            ("database_url", "mysql://host/db", "duetime does not support the database 'mysql'"),
            ("database_url", "postgresql:host", "must start with postgresql"),
            ("database_url", "postgresql://host:port/db", "host or port is malformed"),
            ("database_url", "postgresql://a:1,b:x/db", "host 2 of 2 or port is malformed"),
            ("database_url", "postgresql://a:1,,b/db", "host 2 of 3 is empty or malformed"),
            ("database_url", "postgresql://a,[::1/db", "host 2 of 2 is empty or malformed"),
            ("database_url", "postgresql://a:5432,b,a/db", "host 3 of 3 is the same as host 1"),
            ("database_url", "postgresql:///db?host=a,b,c&port=1,2", "2 ports for 3 hosts"),
            ("database_url", "postgresql://a,b/db?target_session_attrs=standby", "duetime writes"),
            ("database_url", "postgresql://a,b/db?target_session_attrs=any", "must be primary or read-write"),
            ("database_url", "postgresql://a/db?target_session_attrs=main", "must be one of any, primary"),
            ("direct_database_url", "postgresql://a,b:0/db", "host 2 of 2 or port is malformed"),
            ("database_url", "sqlite://", "a path must follow"),
            ("database_url", "sqlite:///", "a path must follow"),
            ("database_url", "sqlite://here.db", "a path must follow"),
            ("port", "65536", "more than 65535"),
            ("port", "-1", "less than 0"),
            ("port", "http", "not a whole number"),
            ("slots", "0", "less than 1"),
            ("slots", "1.5", "not a whole number"),
            ("queues", "mail,,reports", "it is empty"),
            ("queues", "mail,mail", "'mail' appears twice"),
            ("heartbeat", "often", "not a duration"),
            ("heartbeat", "0s", "less than 10ms"),
            ("poll", "1s", "more than 500ms"),
            ("retention", "P1M", "no fixed length"),
            ("max_payload", "1KB", "not a size"),
            ("max_payload", "1GiB", "more than 64MiB"),
            ("max_result", "0", "less than 1B"),
            ("log_level", "loud", "accepted: one of debug, info, warning, error"),
            ("log_format", "xml", "accepted: one of auto, text, json"),
        ],
    )
    def test_a_bad_value_names_setting_source_value_and_reason(self, name: str, text: str, reason: str) -> None:
        variable = f"DUETIME_{name.upper()}"
        message = refused(environ={variable: text})
        assert message.startswith(f"{name}: {variable} is {text!r}: ")
        assert reason in message
        assert "accepted: " in message

    @pytest.mark.parametrize("name", Settings.__struct_fields__)
    @pytest.mark.parametrize("value", ["true", "{ a = 1 }", "1979-05-27"])
    def test_a_value_of_the_wrong_type_is_refused(self, name: str, value: str) -> None:
        assert refused(f"{name} = {value}").startswith(f"{name}: {name} in duetime.toml is ")

    def test_the_source_of_a_flag_is_written_like_the_flag(self) -> None:
        assert "--max-payload is 'big'" in refused(flags={"max_payload": "big"})

    def test_the_error_says_which_field(self) -> None:
        with pytest.raises(DuetimeError) as caught:
            loaded("port = 'x'")
        assert caught.value.field == "port"


class TestPasswords:
    @pytest.mark.parametrize(
        "address",
        [
            "mysql://me:hunter2@host/db",
            "me:hunter2@host/db",
            "postgresql:me:hunter2@host/db",
            "postgresql://me:hunter2/@host/db",
            "postgresql://me:x/hunter2@host/db",
            "postgresql://me:a@hunter2@host:x/db",
            "postgresql://me:a,hunter2:@host:1,other:x/db",
            "mysql://host/db?user=me&password=hunter2",
            "postgresql://me:hunter2\u2100@host/db",
        ],
    )
    def test_no_message_shows_one(self, address: str) -> None:
        assert "hunter2" not in refused(environ={"DUETIME_DATABASE_URL": address})

    @pytest.mark.parametrize(
        "address",
        ["postgresql://me:hunter2@host/db", "postgresql://host/db?password=hunter2&sslmode=require"],
    )
    def test_the_repr_shows_none_but_the_setting_keeps_it(self, address: str) -> None:
        settings = loaded(environ={"DUETIME_DATABASE_URL": address})
        assert "hunter2" not in repr(settings)
        assert "host/db" in repr(settings)
        assert settings.database_url == address

    @pytest.mark.parametrize(
        ("name", "address", "shown"),
        [
            ("smtp_url", "smtps://me:hunter2@mail.example.com", "smtps://me:***@mail.example.com"),
            ("url", "https://me:hunter2@jobs.example.com", "https://me:***@jobs.example.com"),
            ("public_url", "https://me:hunter2@jobs.example.com", "https://me:***@jobs.example.com"),
        ],
    )
    def test_nor_is_one_in_another_address_shown(self, name: str, address: str, shown: str) -> None:
        settings = loaded(flags={name: address})
        assert getattr(settings, name) == address
        assert dict(settings.__rich_repr__())[name] == shown
        assert "hunter2" not in repr(settings)

    @pytest.mark.parametrize("name", ["smtp_url", "url", "public_url"])
    @pytest.mark.parametrize("login", ["me:hunter2/@", "me:hunter2#@", "me:[hunter2@", "me:hunter2\u2100@"])
    def test_nor_does_a_malformed_one_show_it(self, name: str, login: str) -> None:
        scheme = "smtps" if name == "smtp_url" else "https"
        assert "hunter2" not in refused(flags={name: f"{scheme}://{login}example.com"})

    @pytest.mark.parametrize(
        "address",
        ["mail.example.com", "https://example.com", "smtp://", "smtp://host:x", "smtp:host", "smtps://me:12/x@host"],
    )
    def test_a_mail_server_is_one(self, address: str) -> None:
        assert "smtp_url: DUETIME_SMTP_URL is invalid" in refused(environ={"DUETIME_SMTP_URL": address})

    def test_what_cannot_be_said_to_a_mail_server_is_refused(self) -> None:
        message = refused(environ={"DUETIME_SMTP_URL": "smtps://me:p%C3%A4ss@mail.example.com"})
        assert "its name and password must be ASCII" in message


class TestTogether:
    def test_a_lease_bears_one_late_heartbeat(self) -> None:
        message = refused("heartbeat = '8s'")
        assert "lease is 15s (the default) and heartbeat is 8s (heartbeat in duetime.toml)" in message
        assert "make lease at least twice heartbeat" in message
        assert loaded("heartbeat = '7500ms'").lease == timedelta(seconds=15)

    def test_the_check_sees_the_strongest_source(self) -> None:
        assert loaded("heartbeat = '8s'", {"DUETIME_LEASE": "16s"}).heartbeat == timedelta(seconds=8)


class TestSqliteFile:
    @pytest.mark.parametrize(
        ("given", "file"),
        [
            ({}, Path("duetime-data/duetime.db")),
            ({"data_dir": "there"}, Path("there/duetime.db")),
            ({"database_url": "sqlite:///near/jobs.db"}, Path("near/jobs.db")),
            ({"database_url": "sqlite:////far/jobs.db"}, Path("/far/jobs.db")),
            ({"database_url": "postgresql://host/db"}, None),
        ],
    )
    def test_it_follows_from_the_settings(self, given: dict[str, object], file: Path | None) -> None:
        assert loaded(flags=given).sqlite_file == file


class TestStreamQueues:
    def test_queues_with_addresses(self) -> None:
        both = ("mail=redis://:pw@h/0?prefix=a", "sms=kafka://a,b")
        for given in (" ".join(both), list(both)):
            assert loaded(flags={"stream_queues": given}).stream_queues == both

    @pytest.mark.parametrize(
        "wrong", ["mail", "mail=", "=redis://:pw@h", "mail=pw", "mail=redis://pw mail=redis://b", [1]]
    )
    def test_others_are_refused_without_a_password(self, wrong: object) -> None:
        with pytest.raises(SettingsError) as refused:
            loaded(flags={"stream_queues": wrong})
        assert refused.value.field == "stream_queues"
        assert "pw" not in str(refused.value)


class TestDescriptions:
    def test_every_setting_is_described(self) -> None:
        assert [each.name for each in describe()] == list(Settings.__struct_fields__)
        assert all(each.description.endswith(".") and each.accepts and each.default for each in describe())

    def test_a_described_default_is_accepted_and_means_the_default(self) -> None:
        """Those in words ("all") are no values, so only they may be refused."""
        defaults = msgspec.structs.asdict(Settings())
        in_words = {
            "database_url",
            "direct_database_url",
            "replica_url",
            "queues",
            "processes",
            "encryption_keys",
            "stream_queues",
            "url",
            "key",
            "metrics_port",
            "metrics_token",
        }
        in_words |= {
            "allowed_networks",
            "kafka_clusters",
            "cloud_access",
            "trusted_proxies",
            "shell_commands",
            "oidc_providers",
            "public_url",
            "smtp_url",
            "mail_from",
        }
        in_words |= {"tls_cert", "tls_key", "tls_client_ca", "server_ca", "client_cert", "client_key"}
        in_words |= {"key_provider", "key_provider_token", "limits_url"}
        in_words |= {"archive_url", "archive_endpoint", "archive_access_key", "archive_secret_key"}
        for each in describe():
            if each.name not in in_words:
                assert getattr(loaded(environ={each.variable: each.default}), each.name) == defaults[each.name]

    def test_a_default_reads_as_people_write_it(self) -> None:
        shown = {each.name: each for each in describe()}
        assert shown["mail_from"].default == "none"
        assert shown["max_response"].accepts.startswith("a size from 0B to 1MiB")
        assert not [each.name for each in describe() if each.default == "None"]

    def test_the_key_is_never_shown(self) -> None:
        assert "hunter2" not in repr(loaded(environ={"DUETIME_KEY": "hunter2"}))

    @pytest.mark.parametrize("url", ["jobs.example.com", "ftp://example.com", "http://"])
    def test_a_server_has_an_http_address(self, url: str) -> None:
        with pytest.raises(SettingsError, match="not the URL of a server"):
            loaded(environ={"DUETIME_URL": url})

    def test_settings_cannot_be_changed(self) -> None:
        with pytest.raises(AttributeError):
            Settings().port = 1  # type: ignore[misc]

    def test_the_page_is_in_step(self) -> None:
        assert settings_doc.PAGE.read_text(encoding="utf-8") == settings_doc.render(), "run: make docs"


class TestEncryptionKeys:
    KEY = "one:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

    def test_the_first_is_the_one_to_encrypt_with(self) -> None:
        settings = loaded(environ={"DUETIME_ENCRYPTION_KEYS": f"{self.KEY},{self.KEY.replace('one', 'two')}"})
        assert [name for name, _ in settings.sealing_keys] == ["one", "two"]
        assert settings.sealing_keys[0][1] == b"01234567890123456789012345678901"

    @pytest.mark.parametrize(
        "given", ["one", "one:abc", "one:MDEyMzQ1Njc4", f"{KEY},{KEY}", "a b:" + KEY[4:], ":" + KEY[4:]]
    )
    def test_what_cannot_be_a_key(self, given: str) -> None:
        with pytest.raises(SettingsError) as refused:
            loaded(environ={"DUETIME_ENCRYPTION_KEYS": given})
        assert refused.value.field == "encryption_keys"
        assert "MDEy" not in str(refused.value), "a key is not shown, not even a wrong one"

    def test_they_are_not_shown(self) -> None:
        assert "MDEy" not in repr(loaded(environ={"DUETIME_ENCRYPTION_KEYS": self.KEY}))


def test_values_in_python_may_be_text() -> None:
    given = Settings(data_dir="data", grace="1m", slots="3", queues="a, b", tls_cert="c.pem")  # type: ignore[arg-type]
    assert (given.data_dir, given.sqlite_file) == (Path("data"), Path("data/duetime.db"))
    assert (given.grace, given.slots, given.queues) == (timedelta(minutes=1), 3, ("a", "b"))
    assert given == Settings(
        data_dir=Path("data"), grace=timedelta(minutes=1), slots=3, queues=("a", "b"), tls_cert=Path("c.pem")
    )
    with pytest.raises(SettingsError, match=r"^grace: grace is 'soon': .*accepted: "):
        Settings(grace="soon")  # type: ignore[arg-type]
