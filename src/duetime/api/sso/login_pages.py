"""The page that says why a login failed, and what to do. It has no scripts, and everything in it is escaped."""

from html import escape
from urllib.parse import quote

from duetime.api.pages import POLICY, stylesheet
from duetime.api.sso.login_flow import LoginRefused

HEADERS = {"content-security-policy": POLICY, "referrer-policy": "no-referrer"}
_PAGE = """<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>{title} – duetime</title>
    <link rel="stylesheet" href="{style}">
  </head>
  <body>
    <main class="login">
      <div class="card">
        <h1>{title}</h1>
        <p>{detail}</p>
        <p class="soft">{remedy}</p>
        <p>{again}<a href="/">Other ways to log in</a></p>
      </div>
    </main>
  </body>
</html>
"""


def refusal_page(refused: LoginRefused, provider: str | None) -> bytes:
    """`provider`: the one to try again with."""
    again = "" if provider is None else f'<a href="/login/sso/{quote(provider)}">Try again</a> · '
    texts = {"title": refused.title, "detail": refused.detail, "remedy": refused.remedy}
    return _PAGE.format(
        again=again, style=stylesheet(), **{name: escape(text) for name, text in texts.items()}
    ).encode()
