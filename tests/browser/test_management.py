"""Pages that create, change and delete: the forms are made from the types of the API's requests, and the server's
complaints are shown at their fields."""

from typing import Any

import pytest
from playwright.sync_api import Download, Page, expect

from tests.browser.conftest import Looking, Shop
from tests.browser.test_pages import violations


def row(page: Page, name: str) -> Any:
    return page.get_by_role("row").filter(has_text=name)


def forget_refusals(looking: Looking) -> None:
    """The browser tells of answers 4xx itself."""
    looking.complaints = [each for each in looking.complaints if "status of 4" not in each]


def delete(page: Page, name: str, noun: str) -> None:
    page.get_by_role("button", name=f"Delete {name}").click()
    page.get_by_role("button", name="Keep it").click()
    expect(row(page, name)).to_be_visible()
    page.get_by_role("button", name=f"Delete {name}").click()
    page.get_by_role("button", name=f"Delete the {noun}").click()
    expect(page.get_by_text(f"Deleted {name}")).to_be_visible()
    expect(row(page, name)).to_have_count(0)


def test_a_subscription_is_created_tested_changed_and_deleted(looking: Looking) -> None:
    page = looking.go("/notifications")
    page.get_by_role("button", name="New subscription").click()
    page.wait_for_url("**new=1")
    page.get_by_label("Name", exact=True).fill("team")
    page.get_by_label("Kind of To").select_option("webhook")
    page.get_by_label("Url").fill("ftp://example.com/hook")
    page.get_by_role("button", name="Add to Topics").click()
    page.get_by_label("Topics 1").select_option("run.dead")
    assert violations(page) == []
    looking.shoot("notifications-form")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("[id='to.url-wrong']")).to_be_visible()
    expect(page.get_by_label("Url")).to_have_attribute("aria-invalid", "true")
    forget_refusals(looking)
    page.get_by_label("Url").fill("https://hooks.example.com/team")
    page.get_by_role("button", name="Create").click()
    expect(row(page, "team")).to_contain_text("run.dead")
    page.get_by_role("button", name="Send test to team").click()
    expect(page.get_by_role("region", name="Deliveries")).to_contain_text("hooks.example.com")

    page.get_by_role("button", name="Edit team").click()
    page.reload()
    page.get_by_label("Paused").select_option("true")
    page.get_by_role("button", name="Save").click()
    expect(row(page, "team")).to_contain_text("Paused")
    page.get_by_role("button", name="Undo").click()
    expect(row(page, "team")).to_contain_text("Active")
    delete(page, "team", "subscription")


def test_an_alert_is_created_changed_and_deleted(looking: Looking) -> None:
    page = looking.go("/alerts?new=1")
    page.get_by_label("Name", exact=True).fill("quiet")
    page.get_by_label("Figure").select_option("no_success")
    page.get_by_label("Threshold").fill("3600")
    page.get_by_label("Until").fill("7200")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("[id='until-wrong']")).to_be_visible()
    forget_refusals(looking)
    page.get_by_label("Until").fill("")
    page.get_by_label("Task").fill("shop.ping")
    page.get_by_role("button", name="Create").click()
    expect(row(page, "quiet")).to_contain_text("seconds without a success")
    page.get_by_role("button", name="Edit quiet").click()
    expect(page.get_by_label("Threshold")).to_have_value("3600")
    page.get_by_label("Threshold").fill("1800")
    page.get_by_role("button", name="Save").click()
    expect(row(page, "quiet")).to_contain_text("1,800")
    delete(page, "quiet", "alert")


def test_a_check_in_shows_its_address_once(looking: Looking) -> None:
    page = looking.go("/checkins?new=1")
    page.get_by_label("Name", exact=True).fill("cron-box")
    page.get_by_label("Every").fill("60")
    page.get_by_role("button", name="Create").click()
    address = page.locator(".secret").inner_text()
    assert address.startswith(f"{looking.shop.url}/v1/ping/")
    page.get_by_role("button", name="Done").click()
    expect(row(page, "cron-box")).to_contain_text("Never pinged")
    page.request.get(address)
    expect(row(page, "cron-box")).to_contain_text("Up")
    page.get_by_role("button", name="Pause cron-box").click()
    expect(row(page, "cron-box")).to_contain_text("Paused")
    page.get_by_role("button", name="Undo").click()
    expect(row(page, "cron-box")).not_to_contain_text("Paused")
    page.get_by_role("button", name="New address of cron-box").click()
    page.get_by_role("button", name="Replace the address").click()
    assert page.locator(".secret").inner_text() != address
    assert page.request.get(address).status == 404
    page.get_by_role("button", name="Done").click()
    delete(page, "cron-box", "check-in")


def test_a_calendar_keeps_its_days(looking: Looking) -> None:
    page = looking.go("/calendars?new=1")
    page.get_by_label("Name", exact=True).fill("closed")
    page.get_by_label("Dates 1").fill("2041-05-01")
    page.get_by_role("button", name="Add to Dates").click()
    page.get_by_label("Dates 2").fill("2041-12-26")
    page.get_by_role("button", name="Create").click()
    expect(row(page, "closed")).to_contain_text("1 May 2041")
    page.get_by_role("button", name="Edit closed").click()
    page.get_by_role("button", name="Remove Dates 1").click()
    page.get_by_role("button", name="Save").click()
    expect(row(page, "closed")).not_to_contain_text("1 May")
    assert looking.shop.ask("GET", "/v1/calendars/closed")["dates"] == ["2041-12-26"]
    delete(page, "closed", "calendar")


def test_a_secret_is_never_shown(looking: Looking) -> None:
    page = looking.go("/secrets?new=1")
    page.get_by_label("Name", exact=True).fill("pay-token")
    page.get_by_label("Value").fill("a value of the browser")
    page.get_by_label("Hosts 1").fill("not a host")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("[id='hosts[0]-wrong'], [id='hosts-wrong']")).to_be_visible()
    forget_refusals(looking)
    page.get_by_label("Hosts 1").fill("pay.example.com")
    page.get_by_role("button", name="Create").click()
    expect(row(page, "pay-token")).to_contain_text("pay.example.com")
    page.get_by_role("button", name="Edit pay-token").click()
    expect(page.get_by_label("Value")).to_have_value("")
    assert "a value of the browser" not in page.content()
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="New signing secret").click()
    page.get_by_role("button", name="Create it").click()
    expect(page.locator(".secret")).to_contain_text("whsec_")
    page.get_by_role("button", name="Done").click()
    delete(page, "pay-token", "secret")


def test_a_source_is_paused_and_deleted(looking: Looking) -> None:
    page = looking.go("/sources?new=1")
    page.get_by_label("Name", exact=True).fill("clicks")
    page.get_by_label("Kind of Broker").select_option("redis")
    page.get_by_label("Address").fill("redis.example.com:6379")
    page.get_by_label("Stream").fill("clicks")
    page.get_by_label("Job").fill('{"task": "shop.ping", "cron": "* * * * *"}')
    page.get_by_label("Paused").select_option("true")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("[id='job-wrong']")).to_contain_text("cron")
    forget_refusals(looking)
    page.get_by_label("Job").fill('{"task": "shop.ping"}')
    page.get_by_role("button", name="Create").click()
    expect(row(page, "clicks")).to_contain_text("Paused")
    delete(page, "clicks", "source")


def test_an_issuer_is_registered_and_deleted(looking: Looking) -> None:
    page = looking.go("/issuers?new=1")
    page.get_by_label("Name", exact=True).fill("portal")
    page.get_by_label("Issuer", exact=True).fill("https://portal.example.com")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("jwks")
    forget_refusals(looking)
    page.get_by_label("Jwks url").fill("https://portal.example.com/keys")
    page.get_by_role("button", name="Create").click()
    expect(row(page, "portal")).to_contain_text("https://portal.example.com")
    delete(page, "portal", "issuer")


def test_a_tenant_is_suspended_exported_and_erased(looking: Looking) -> None:
    shop = looking.shop
    shop.ask("POST", "/v1/admin/tenants", {"name": "leaving"})
    page = looking.go("/tenants/leaving")
    page.get_by_role("button", name="Suspend").click()
    expect(page.locator("main .head .badge")).to_have_text("Suspended")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("main .head .badge")).to_have_text("Active")
    with page.expect_download() as usage:
        page.get_by_role("button", name="Download as CSV").click()
    assert text_of(usage.value).startswith("tenant,day")
    with page.expect_download() as export:
        page.get_by_role("button", name="Export everything").click()
    assert '"section"' in text_of(export.value)

    remove = page.get_by_role("form", name="Delete the tenant").get_by_role("button")
    page.get_by_label("Type its name").fill("leavin")
    expect(remove).to_be_disabled()
    page.get_by_label("Type its name").fill("leaving")
    assert violations(page) == []
    remove.click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the tenant").click()
    expect(page.get_by_role("region", name="Deleted tenants")).to_contain_text("Waiting")
    page.get_by_role("link", name="leaving").first.click()
    page.get_by_role("button", name="Take back the deletion").click()
    expect(page.locator("main .head .badge")).to_have_text("Active")
    page.get_by_label("Type its name").fill("leaving")
    page.locator("select[name=grace]").select_option("0")
    remove.click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the tenant").click()
    gone = page.get_by_role("region", name="Deleted tenants").get_by_role("row").filter(has_text="Done")
    expect(gone).to_be_visible(timeout=60_000)
    assert violations(page) == []
    forget_refusals(looking)


def text_of(download: Download) -> str:
    return download.path().read_text()


@pytest.mark.parametrize("path", ["/alerts", "/checkins", "/notifications", "/calendars", "/sources", "/archive"])
def test_a_viewer_changes_nothing(looking: Looking, shop: Shop, path: str) -> None:
    key = shop.make_key("viewer")
    looking.page.context.clear_cookies()
    looking.page.context.request.post(f"{shop.url}/login", data={"key": key})
    page = looking.go(f"{path}?new=1")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("[aria-busy]")).to_have_count(0)
    assert page.locator("main button").count() == 0
    assert page.locator("main form").count() == 0
    assert violations(page) == []


def test_defaults_of_the_tenant_are_changed_and_taken_back(looking: Looking) -> None:
    looking.shop.ask("POST", "/v1/admin/tenants", {"name": "with-defaults"})
    page = looking.go("/defaults?tenant=with-defaults")
    page.get_by_role("button", name="Edit defaults").click()
    page.get_by_label("Queue", exact=True).fill("bulk")
    page.get_by_label("Timeout", exact=True).fill("soon")
    assert violations(page) == []
    page.get_by_role("button", name="Save").click()
    expect(page.locator("[id='timeout-wrong']")).to_be_visible()
    forget_refusals(looking)
    page.get_by_label("Timeout", exact=True).fill("30m")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_label("Defaults", exact=True)).to_contain_text("bulk")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("This tenant has no defaults.")).to_be_visible()
