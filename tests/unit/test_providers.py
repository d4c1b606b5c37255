"""The file of identity providers: every mistake keeps the server from starting, and the error says which."""

from pathlib import Path

import pytest

from duetime.api.sso.providers import read_providers
from duetime.errors import SettingsError
from duetime.model.identity import identity_of
from duetime.settings import Settings

GOOD = """
[acme]
issuer = "https://id.example.com/realms/acme"
client_id = "duetime"
[[acme.access]]
group = "ops"
tenant = "default"
role = "admin"
"""


def read(folder: Path, text: str, **settings: object) -> object:
    path = folder / "providers.toml"
    path.write_text(text, encoding="utf-8")
    given = {"oidc_providers": path, "public_url": "https://jobs.example.com", **settings}
    return read_providers(Settings(**given))  # type: ignore[arg-type]


def test_the_defaults(tmp_path: Path) -> None:
    (provider,) = read(tmp_path, GOOD)  # type: ignore[misc]
    assert (provider.title, provider.client_secret, provider.groups_claim) == ("acme", None, "groups")
    assert provider.session_lifetime.total_seconds() == 3600
    assert "openid" in provider.scopes and "offline_access" in provider.cli_scopes


def test_a_secret_comes_from_a_file_or_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("s3cret\n", encoding="utf-8")
    monkeypatch.setenv("ACME_SECRET", "s3cret")
    for line in (f'client_secret_file = "{tmp_path}/secret"', 'client_secret_env = "ACME_SECRET"'):
        (provider,) = read(tmp_path, GOOD.replace('client_id = "duetime"', f'client_id = "duetime"\n{line}'))  # type: ignore[misc]
        assert provider.client_secret == "s3cret" and "s3cret" not in repr(provider)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("issuer =", "isuer =", "isuer"),
        ('client_id = "duetime"', "", "client_id"),
        ("[acme]", '["a b"]', "not a table"),
        ("https://id.example.com", "http://1.1.1.1", "allowed"),
        ("https://id.example.com", "https://127.0.0.1", "loopback"),
        ("realms/acme", "realms?x=1", "query"),
        ('client_id = "duetime"', 'client_id = "d"\nscopes = ["email"]', "openid"),
        ('client_id = "duetime"', 'client_id = "d"\nsession_lifetime = "1s"', "session_lifetime"),
        ('client_id = "duetime"', 'client_id = "d"\nalgorithms = ["HS256"]', "HS256"),
        ('client_id = "duetime"', 'client_id = "d"\nalgorithms = ["none"]', "none"),
        ('client_id = "duetime"', 'client_id = "d"\nnetworks = ["x"]', "x"),
        ('client_id = "duetime"', 'client_id = "d"\ncli_redirect_uri = "https://evil.example"', "cli_redirect_uri"),
        ('client_id = "duetime"', 'client_id = "d"\nclient_secret = "a"\nclient_secret_env = "B"', "give one"),
        ('client_id = "duetime"', 'client_id = "d"\nclient_secret_env = "NOT_SET_ANYWHERE"', "NOT_SET_ANYWHERE"),
        ('client_id = "duetime"', 'client_id = "d"\nclient_secret_file = "/nowhere"', "cannot be read"),
        ('client_id = "duetime"', 'client_id = "d"\nclient_secret = ""', "empty"),
        ('role = "admin"', 'role = "worker"', "worker"),
        ('role = "admin"', 'role = "root"', "tenant is not for"),
        ('tenant = "default"', "", "tenant is required"),
        ('group = "ops"', 'claim = "hd"', "claim and value"),
        ('group = "ops"', 'group = ""', "value"),
        ('role = "admin"', 'role = "admin"\nqueue = "mail"', "cannot be bound to queue"),
        ('role = "admin"', 'role = "viewer"\nowner = "a"\nowner_claim = "sub"', "owner or owner_claim"),
        ("[[acme.access]]", "[[acme.acces]]", "acces"),
    ],
)
def test_mistakes(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in GOOD
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, GOOD.replace(old, new))
    assert told in str(caught.value) and "providers.toml" in str(caught.value)


def test_what_is_needed_around_the_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="public_url"):
        read(tmp_path, GOOD, public_url=None)
    with pytest.raises(SettingsError, match="cannot be read"):
        read_providers(Settings(oidc_providers=tmp_path / "none.toml", public_url="https://x.example"))
    with pytest.raises(SettingsError, match="appears twice"):
        read(tmp_path, GOOD + GOOD.replace("acme]", "two]").replace("acme.", "two."))
    assert read_providers(Settings()) == ()


def test_the_first_rule_that_fits_decides_for_its_tenant(tmp_path: Path) -> None:
    more = '[[acme.access]]\ngroup = "dev"\ntenant = "default"\nrole = "viewer"\n'
    (provider,) = read(tmp_path, GOOD + more)  # type: ignore[misc]
    claims = {"iss": provider.issuer, "sub": "ann", "groups": ["dev", "ops", "x" * 100_000]}
    identity = identity_of("acme", claims, provider.rules)
    assert identity.facts == (("groups", "ops"), ("groups", "dev")), "of a person only what rules name is kept"
    assert [grant.role.name for grant in identity.grants(provider.rules)] == ["ADMIN"]
