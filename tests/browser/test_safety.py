"""Text is text: whatever job names, errors, arguments, results and logs hold, nothing of it runs or becomes markup."""

import json

import pytest
from playwright.sync_api import expect

from duetime.text.visible import visible_lines
from tests.browser.conftest import Looking, Shop
from tests.support.hostile import dangers

PAYLOADS = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror=window.hacked=1>",
    "<svg onload=window.hacked=1>",
    "\"'><iframe srcdoc='<script>parent.hacked=1</script>'>",
    "javascript:window.hacked=1",
    "${window.hacked=1}{{constructor.constructor('window.hacked=1')()}}",
    "</textarea></script><body onload=window.hacked=1>",
    "<a href='javascript:window.hacked=1' autofocus onfocus=window.hacked=1>x</a>",
    "<style>*{display:none}</style>",
    "\u202e<b>backwards</b>\u200b",
    "\x1b[2J\x9b\x7f\u2066\U000e0041hidden",
]


@pytest.fixture(scope="module")
def jobs(shop: Shop) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for text in PAYLOADS:
        name = {"name": text} if text.isprintable() else {}  # the API takes no other names
        found[text] = shop.submit("shout", **name, args={"text": text}, retries=0, tags=["payload"])
    return found


def test_payloads_stay_text(looking: Looking, jobs: dict[str, dict[str, str]]) -> None:
    for text, made in jobs.items():
        page = looking.go(f"/runs/{made['run_id']}")
        seen = visible_lines(text)
        expect(page.get_by_label("Error", exact=True)).to_contain_text(seen)
        expect(page.get_by_role("list", name="Log of attempt 1")).to_contain_text(seen)
        page.get_by_role("button", name="Show values").click()
        said = visible_lines(json.dumps(text, ensure_ascii=False)[1:-1])
        expect(page.get_by_role("region", name="Arguments")).to_contain_text(said)
        assert not dangers(page.evaluate("document.body.innerText")), text
        page.get_by_role("link", name=made["job_id"]).click()
        shown = text if text.isprintable() else "shop.shout"
        expect(page.get_by_role("heading", level=1)).to_have_text(shown)
        assert page.evaluate("window.hacked") is None, text
        assert page.locator("main iframe, main svg, main img, main script, main style, main b").count() == 0, text


def test_lists_show_them_as_text(looking: Looking, jobs: dict[str, dict[str, str]]) -> None:
    for path in ("/jobs?tag=payload", "/dead-letters", "/runs?task=shop.shout", "/"):
        page = looking.go(path)
        expect(page.locator("[aria-busy]")).to_have_count(0)
        page.wait_for_timeout(200)
        assert not dangers(page.evaluate("document.body.innerText"))
        assert page.evaluate("window.hacked") is None
        assert page.locator("main iframe, main svg, main img, main script, main style").count() == 0


def test_the_policy_is_strict(looking: Looking) -> None:
    for path in ("/", "/jobs", "/docs"):
        policy = looking.page.request.get(looking.shop.url + path).headers["content-security-policy"]
        assert "unsafe" not in policy and "*" not in policy and "http" not in policy
        assert policy.startswith("default-src 'none'") and "frame-ancestors 'none'" in policy
    page = looking.go("/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Now")
    blocked = page.evaluate(
        """() => {
            const script = document.createElement('script');
            try { script.textContent = 'window.hacked = 1'; } catch (error) { return 'refused'; }
            document.body.append(script);
            return window.hacked === undefined ? 'refused' : 'ran';
        }"""
    )
    assert blocked == "refused"
    looking.complaints.clear()  # the browser tells of what it refused
