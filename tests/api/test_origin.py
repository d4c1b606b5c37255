"""A session changes something only from this server's own page, whatever the browser says of where it is."""

from tests.support.served import Served

HOST = "jobs.example.com:8080"
OWN: tuple[dict[str, str], ...] = (
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "https://before-the-proxy.example.com"},
    {"Origin": f"http://{HOST}"},
    {"Origin": f"https://{HOST.upper()}"},
)
FOREIGN: tuple[dict[str, str], ...] = (
    {},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "http://evil.example.com"},
    {"Origin": "http://jobs.example.com"},
    {"Origin": "http://jobs.example.com:9090"},
    {"Origin": f"http://{HOST}.evil.example.com"},
    {"Origin": "http://", "Host": ""},
    {"Sec-Fetch-Site": "cross-site", "Origin": f"http://{HOST}"},
    {"Sec-Fetch-Site": "same-site", "Origin": f"http://{HOST}"},
    {"Sec-Fetch-Site": "none", "Origin": f"http://{HOST}"},
    {"Sec-Fetch-Site": "", "Origin": f"http://{HOST}"},
    {"Referer": f"http://{HOST}/"},
)


async def test_the_own_page_alone_may_change_something(api: Served) -> None:
    answer = await api.post("/login", {"key": api.root}, key=None)
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    for headers, status in [(each, 201) for each in OWN] + [(each, 403) for each in FOREIGN]:
        sent = {"Host": HOST, "Cookie": cookie, **headers}
        answer = await api.post("/v1/jobs", {"task": "t"}, key=None, headers=sent)
        assert answer.status == status, headers
        if status == 403:
            assert (answer.code, answer.json["detail"]) == ("forbidden", "the request comes from another site")
    sent = {"Cookie": "duetime_session=old", "Origin": "http://evil.example.com"}
    assert (await api.post("/v1/jobs", {"task": "t"}, key=None, headers=sent)).status == 401


async def test_who_may_log_in_over_plain_http(api: Served) -> None:
    for origin, status in (("http://evil.example.com", 403), ("null", 403), (f"http://{HOST}", 200), (None, 200)):
        sent = {"Host": HOST} | ({} if origin is None else {"Origin": origin})
        answer = await api.post("/login", {"key": api.root}, key=None, headers=sent)
        assert (answer.status, "Set-Cookie" in answer.headers) == (status, status == 200)
        assert (await api.post("/logout", key=None, headers=sent)).status == status
