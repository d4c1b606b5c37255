"""The address of a page is its whole view: a reload, Back, Forward and another browser show the same. All times are in
one zone. A cell of the calendar opens what it counts."""

import re
from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import TIMEOUT, WIDE, Looking, Shop, log_in
from tests.browser.test_pages import violations

_ZONE = """async (found) => {
    const script = document.querySelector("script[type=module]").src;
    const { instantOf, setZone, wallAt } = await import(new URL("core/zone.js", script));
    return found.map(([zone, at, wall]) => { setZone(zone); return [wallAt(at), instantOf(wall)]; });
}"""


def shown(page: Page) -> str:
    """What the page shows once it has loaded, without what changes by itself."""
    expect(page.locator("main h1")).to_be_visible()
    expect(page.locator("[aria-busy]")).to_have_count(0)
    expect(page.locator("main tbody tr, main .empty").first).to_be_visible()
    return page.locator("main thead, main tbody .job-name, main .pager, main form").evaluate_all(
        "(found) => found.map((each) => each.innerText"
        " + [...each.querySelectorAll('input,select')].map((field) => field.value)).join('\\n')"
    )


def filled(shop: Shop) -> None:
    if not shop.ask("GET", "/v1/jobs?tag=viewed&page_size=1")["items"]:
        jobs = [{"task": "shop.ping", "name": f"Viewed {n}", "every": "12h", "tags": ["viewed"]} for n in range(120)]
        shop.ask("POST", "/v1/jobs/batch", jobs)


def test_a_place_in_a_list_is_in_the_address(looking: Looking) -> None:
    filled(looking.shop)
    page = looking.go("/jobs?tag=viewed")
    first = shown(page)
    page.get_by_role("button", name="Older →").click()
    page.wait_for_url("**page=2*")
    expect(page.get_by_text("Page 2, 50 jobs")).to_be_visible()
    second = shown(page)
    assert second != first
    page.get_by_role("button", name="Older →").click()
    expect(page.get_by_text("Page 3, 20 jobs")).to_be_visible()
    third, address = shown(page), page.url

    page.go_back()
    expect(page.get_by_text("Page 2, 50 jobs")).to_be_visible()
    assert shown(page) == second
    page.go_forward()
    expect(page.get_by_text("Page 3, 20 jobs")).to_be_visible()
    page.reload()
    expect(page.get_by_text("Page 3, 20 jobs")).to_be_visible()
    assert shown(page) == third
    page.get_by_role("button", name="← Newer").click()
    expect(page.get_by_text("Page 2, 50 jobs")).to_be_visible()
    assert shown(page) == second, "a reload knows the pages before it"

    shared = looking.page.context.new_page()
    shared.goto(address)
    expect(shared.get_by_text("Page 3, 20 jobs")).to_be_visible()
    assert shown(shared) == third
    expect(shared.get_by_role("button", name="← Newer")).to_be_disabled()
    shared.get_by_role("button", name="First page").click()
    expect(shared.get_by_text("Page 1, 50 jobs")).to_be_visible()
    assert shown(shared) == first


def test_a_filter_and_its_range_are_in_the_address(looking: Looking) -> None:
    page = looking.go("/runs")
    page.get_by_label("Task").fill("shop.charge")
    page.locator("select[name=range]").select_option("-24h")
    page.get_by_role("button", name="Find").click()
    page.wait_for_url("**start_time=*")
    assert "task=shop.charge" in page.url and "end_time=" in page.url
    expect(page.get_by_label("Due from")).not_to_have_value("")
    assert violations(page) == []
    address, seen = page.url, shown(page)
    page.get_by_label("Due from").fill("2020-02-01T10:00")
    page.get_by_label("until").fill("2020-02-01T11:00")
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_text("No runs match.")).to_be_visible()
    assert "start_time=2020-02-01T09%3A00%3A00.000Z" in page.url, "as in Berlin, the zone of this browser"
    page.go_back()
    expect(page.get_by_text("shop.charge").first).to_be_visible()
    assert shown(page) == seen
    page.goto(address)
    assert shown(page) == seen


def test_choices_on_a_page_are_in_the_address(looking: Looking) -> None:
    for path, button, part in (
        ("/", "15 min", "window=15m"),
        ("/sessions", "This tenant", "of=tenant"),
        ("/calendar", "Day", "view=day"),
    ):
        page = looking.go(path)
        page.get_by_role("button", name=button, exact=True).click()
        page.wait_for_url(f"**{part}*")
        page.reload()
        expect(page.get_by_role("button", name=button, exact=True)).to_have_attribute("aria-pressed", "true")
        page.go_back()
        expect(page.get_by_role("button", name=button, exact=True)).to_have_attribute("aria-pressed", "false")


def test_the_tenant_is_in_the_address(looking: Looking, browser: Browser) -> None:
    shop = looking.shop
    shop.ask("POST", "/v1/admin/tenants", {"name": "viewed"})
    page = looking.go("/calendar")
    selector = page.get_by_role("combobox", name="Tenant", exact=True)
    selector.focus()
    with page.expect_navigation():
        selector.select_option("viewed")
    assert page.url.endswith("/calendar?tenant=viewed")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Jobs", exact=True).click()
    expect(page.get_by_text("There are no jobs yet.")).to_be_visible()
    assert page.url.endswith("/jobs?tenant=viewed")
    assert all("tenant=viewed" in str(link.get_attribute("href")) for link in page.locator("nav a").all())
    page.get_by_role("button", name="Find").click()
    page.wait_for_url("**/jobs?tenant=viewed")
    address = page.url
    page.reload()
    expect(page.get_by_text("There are no jobs yet.")).to_be_visible()

    shared = page.context.new_page()
    shared.goto(address)
    expect(shared.get_by_text("There are no jobs yet.")).to_be_visible()
    expect(shared.get_by_role("combobox", name="Tenant", exact=True)).to_have_value("viewed")
    shared.goto(shop.url + "/jobs?tenant=nowhere")
    expect(shared.get_by_role("alert")).to_contain_text("nowhere, which does not exist")
    shared.get_by_role("link", name="Open your own tenant").click()
    expect(shared.get_by_role("heading", level=1)).to_have_text("Now")
    assert shared.url.endswith("/")

    while "viewed" in page.url:
        page.go_back()
    expect(page.get_by_role("combobox", name="Tenant", exact=True)).to_have_value("default")

    other = browser.new_context(viewport=WIDE)
    log_in(other, shop, shop.make_key("viewer"))
    stranger = other.new_page()
    stranger.goto(address)
    expect(stranger.get_by_role("alert")).to_contain_text("viewed, which this login cannot open")
    other.close()


def test_every_time_is_in_one_zone(looking: Looking) -> None:
    run = looking.shop.ask("GET", "/v1/dead-letters")["items"][0]
    due = datetime.fromisoformat(run["due_at"])
    page = looking.go(f"/runs/{run['run_id']}")
    zone = page.get_by_label("Times in")
    expect(zone).to_have_value("Europe/Berlin")
    for name in ("Asia/Tokyo", "America/Los_Angeles"):
        zone.select_option(name)
        there = due.astimezone(ZoneInfo(name))
        expect(page.get_by_role("region", name="Details")).to_contain_text(f"{there.day} {there:%b %Y, %H:%M:%S}")
    page.reload()
    expect(page.get_by_label("Times in")).to_have_value("America/Los_Angeles")
    assert violations(page) == []
    page.goto(f"{looking.shop.url}/runs?task={run['task']}")
    there = due.astimezone(ZoneInfo("America/Los_Angeles"))
    moments = page.locator(f"time[datetime='{run['due_at']}']").first
    expect(moments).to_have_attribute("title", re.compile(f"{there:%H:%M:%S}"))
    page.goto(looking.shop.url + "/jobs/new")
    expect(page.locator("#tz")).to_have_value("America/Los_Angeles")
    page.get_by_label("Times in").select_option("Europe/Berlin")
    page.reload()
    expect(page.get_by_label("Times in")).to_have_value("Europe/Berlin")


def test_the_clock_on_the_wall(looking: Looking) -> None:
    """Also around clock changes, which skip an hour or repeat one."""
    dice = Random(7)
    moments = []
    for zone in ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo"):
        days = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=15 * n) for n in range(4 * 24 * 365)]
        offsets = [day.astimezone(ZoneInfo(zone)).utcoffset() for day in days]
        changes = [n for n in range(1, len(days)) if offsets[n] != offsets[n - 1]]
        near = [change + step for change in changes for step in range(-9, 10)]
        moments += [(zone, days[n]) for n in [*near, *dice.sample(range(len(days)), 20)]]
    walls = [moment.astimezone(ZoneInfo(zone)) for zone, moment in moments]
    given = [
        [
            zone,
            moment.timestamp() * 1000,
            {name: getattr(wall, name) for name in ("year", "month", "day", "hour", "minute")},
        ]
        for (zone, moment), wall in zip(moments, walls, strict=True)
    ]
    page = looking.go("/jobs/new")
    for (zone, moment), wall, (read, instant) in zip(moments, walls, page.evaluate(_ZONE, given), strict=True):
        assert (read["day"], read["hour"], read["minute"]) == (wall.day, wall.hour, wall.minute), (zone, moment)
        assert instant == wall.replace(fold=0).timestamp() * 1000, (zone, moment)


def runs_in_this_time(page: Page) -> int:
    """The sum of a column, over all pages of the list."""
    place = page.locator("main thead th").all_inner_texts().index("Runs in this time")
    cells, older, found = page.locator(f"main tbody tr td:nth-child({place + 1})"), page.locator("main .pager"), 0
    for number in range(2, 100):
        expect(page.locator("[aria-busy]")).to_have_count(0)
        found += sum(int(text.replace(",", "")) for text in cells.all_inner_texts())
        further = older.get_by_role("button", name="Older →")
        if not further.is_visible() or further.is_disabled():
            break
        further.click()
        expect(page.get_by_text(re.compile(f"^Page {number},"))).to_be_visible()
    return found


@pytest.mark.parametrize("queue", ["", "counted"])
def test_a_cell_opens_what_it_counts(looking: Looking, queue: str) -> None:
    shop = looking.shop
    if not shop.ask("GET", "/v1/jobs?queue=counted&page_size=1")["items"]:
        shop.submit("ping", name="Counted often", cron="*/20 * * * *", queue="counted")
        shop.submit("ping", name="Counted once", run_in="26h", queue="counted")
        shop.submit("ping", name="Counted daily", cron="30 5 * * *", tz="Asia/Kolkata", queue="counted")
    page = looking.go(f"/calendar?queue={queue}")
    page.get_by_label("Times in").select_option("America/New_York")
    cells = page.locator(".heat tbody td a[href*=fires_from]")
    expect(cells.first).to_be_visible()
    calendar = page.url
    numbers = [0, 1, 27, cells.count() - 1]
    for number in numbers:
        expect(cells.first).to_be_visible()
        cell = cells.nth(number)
        said = str(cell.get_attribute("aria-label"))
        cell.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
        if queue:
            expect(page.get_by_role("status").filter(has_text="until")).to_contain_text(re.compile("[0-9]+ runs? of"))
        expect(page.locator("main tbody tr").first).to_be_visible()
        fires = runs_in_this_time(page)
        wanted = int(re.findall(r"([0-9,]+) runs?$", said)[0].replace(",", ""))
        if number:  # the present cell counts from now on
            assert fires == wanted, said
        else:
            assert 0 <= wanted - fires <= 40, said
        page.goto(calendar)
    past = page.locator(".heat .past").first
    if past.count():
        past.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
        page.wait_for_url(re.compile("start_time=.*end_time="), timeout=TIMEOUT)
