"""Single sign-on: people and services that an identity provider of the operator vouches for (docs/sso.md)."""
