"""Who may talk to the server, over real sockets."""

import re
from http.cookies import SimpleCookie
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from actors.console.access import CODE_LIFE_S, MOST_CODES, Access, LoginCodes
from tests.actors.console.serving import BEARER, TOKEN, House, serving
from tests.fakes.clock import ManualClock

pytestmark = pytest.mark.slow

SAY = {"text": "hello"}


async def refused(
    house: House, status: int, method: str = "POST", path: str = "/api/messages", **how: Any
) -> str:
    """Send with no token but what `how` says, and return the refusal's text."""
    if method == "POST" and "data" not in how:
        how.setdefault("json", SAY)
    async with house.stranger.request(method, path, **how) as response:
        body = await response.json()
        assert response.status == status, body
    assert house.desk.spoken == []
    return str(body["error"]["message"])


async def cookie_of(house: House) -> dict[str, str]:
    async with house.stranger.post("/api/login", json={"token": TOKEN}) as response:
        assert response.status == 200
        header = response.headers["set-cookie"]
    house.stranger.cookie_jar.clear()
    return {"Cookie": header.partition(";")[0]}


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://127.0.0.1:1", "http://localhost:1", "null", ""]
)
async def test_X10_a_foreign_origin_is_refused_even_with_the_token_or_the_cookie(origin: str) -> None:
    async with serving() as house:
        for proof in (BEARER, await cookie_of(house)):
            why = await refused(house, 403, headers={**proof, "Origin": origin})
            assert "server.allowed_origins" in why
            await refused(house, 403, "GET", "/api/status", headers={**proof, "Origin": origin})
            await refused(house, 403, "GET", "/", headers={**proof, "Origin": origin})


@pytest.mark.parametrize("path", ["/", "/api/status", "/api/sessions/x/events", "/v1/models", "/healthz"])
async def test_X10_a_web_socket_handshake_of_another_page_is_refused(path: str) -> None:
    handshake = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Origin": "https://evil.example",
    }
    async with serving() as house:
        cookie = await cookie_of(house)
        await refused(house, 403, "GET", path, headers={**handshake, **cookie})
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await house.stranger.ws_connect(path, origin="https://evil.example", headers=cookie)
        assert refusal.value.status == 403


async def test_X10_there_is_no_web_socket_at_all() -> None:
    async with serving() as house:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await house.web.ws_connect("/api/sessions/x/events")
        assert refusal.value.status in {200, 400, 404, 426}


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8632",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "10.0.0.1",
        "a b",
    ],
)
async def test_X10_a_foreign_host_is_refused_everywhere_also_with_the_token(host: str) -> None:
    async with serving() as house:
        for path in ("/", "/static/app.js", "/healthz", "/api/status", "/metrics", "/v1/models"):
            await refused(house, 403, "GET", path, headers={**BEARER, "Host": host})
        why = await refused(house, 403, headers={**BEARER, "Host": "evil.example"})
        assert "server.allowed_hosts" in why
        assert "evil.example" in why


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:99", "127.0.0.1", "[::1]:8632", "bot.example", "b.example:443"]
)
async def test_a_host_that_is_ours_or_allowed_is_answered(host: str) -> None:
    async with (
        serving(allowed_hosts=("bot.example", "b.example:443")) as house,
        house.web.get("/api/status", headers={"Host": host}) as response,
    ):
        assert response.status == 200


async def test_a_host_that_is_allowed_with_a_port_is_allowed_with_that_port_only() -> None:
    async with serving(allowed_hosts=("b.example:443",)) as house:
        await refused(house, 403, "GET", "/api/status", headers={**BEARER, "Host": "b.example:444"})


async def test_X10_without_origin_only_the_token_passes() -> None:
    async with serving() as house:
        assert "Bearer" in await refused(house, 401)
        await refused(house, 401, headers={"Authorization": "Bearer wrong"})
        await refused(house, 401, headers={"Authorization": f"Basic {TOKEN}"})
        await refused(house, 401, headers={"Authorization": f"Bearer {TOKEN}x"})
        await refused(house, 401, headers={"Cookie": "callboard_00000000=x"})
        await refused(house, 401, "GET", f"/api/status?token={TOKEN}")
        async with house.web.post("/api/messages", json=SAY) as response:
            assert response.status == 202


async def test_the_token_is_asked_for_everywhere_but_for_health_and_the_page() -> None:
    async with serving() as house:
        for path in ("/api/status", "/api/sessions", "/api/commands", "/metrics", "/v1/models", "/nothing"):
            await refused(house, 401, "GET", path)
        for path in ("/api/sessions/x/stop", "/api/login-codes", "/v1/chat/completions", "/healthz/x"):
            await refused(house, 401, "POST", path)
        for path in ("/healthz", "/readyz", "/", "/static/app.js"):
            async with house.stranger.get(path) as response:
                assert response.status == 200


async def test_X10_the_cookie_needs_our_own_origin_to_do_anything() -> None:
    async with serving() as house:
        cookie = await cookie_of(house)
        await refused(house, 403, headers=cookie)
        await refused(house, 403, headers={**cookie, "Sec-Fetch-Site": "same-site"})
        async with house.stranger.get("/api/status", headers=cookie) as response:
            assert response.status == 200
        async with house.stranger.post(
            "/api/messages", json=SAY, headers={**cookie, "Origin": house.url}
        ) as response:
            assert response.status == 202


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_X10_reading_from_another_site_is_refused_by_the_browsers_own_word(site: str) -> None:
    async with serving() as house:
        cookie = await cookie_of(house)
        await refused(house, 403, "GET", "/api/sessions", headers={**cookie, "Sec-Fetch-Site": site})
        async with house.stranger.get("/", headers={"Sec-Fetch-Site": site}) as response:
            assert response.status == 200  # a link to the page is a link


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "text/plain; application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
    ],
)
async def test_X10_only_json_is_taken(kind: str) -> None:
    async with serving() as house:
        for path in ("/api/messages", "/v1/chat/completions", "/api/sessions/x/stop", "/api/login"):
            how = {"data": b'{"text": "hello"}', "headers": {**BEARER, "Content-Type": kind}}
            assert "application/json" in await refused(house, 415, "POST", path, **how)
        async with house.control.post(
            "/api/messages", data=b"{}", headers={"Content-Type": "text/plain"}
        ) as response:
            assert response.status == 415


async def test_an_allowed_origin_passes_and_may_read_but_no_other() -> None:
    page = {"Origin": "https://chat.example"}
    async with serving(allowed_origins=("https://chat.example/",)) as house:
        async with house.stranger.options("/api/messages", headers=page) as response:
            assert response.status == 204
            assert response.headers["access-control-allow-origin"] == "https://chat.example"
            assert "Authorization" in response.headers["access-control-allow-headers"]
        async with house.web.post("/api/messages", json=SAY, headers=page) as response:
            assert response.status == 202
            assert response.headers["access-control-allow-origin"] == "https://chat.example"
        async with house.web.get("/api/status") as response:
            assert "access-control-allow-origin" not in response.headers
        async with house.stranger.options(
            "/api/messages", headers={"Origin": "https://evil.example"}
        ) as response:
            assert response.status == 403
            assert "access-control-allow-origin" not in response.headers


async def test_the_control_socket_needs_no_token() -> None:
    async with serving() as house:
        async with house.control.post("/api/messages", json={**SAY, "platform": "terminal"}) as response:
            assert response.status == 202
        async with house.control.get("/metrics") as response:
            assert b"callboard_turns_total" in await response.read()


async def test_only_the_control_socket_is_a_terminal() -> None:
    async with serving() as house:
        why = await refused(house, 422, json={**SAY, "platform": "terminal"}, headers=BEARER)
        assert why.startswith("platform:")


# --------------------------------------------------------------------- login


async def test_a_login_link_works_once_and_leaves_no_code_in_the_address() -> None:
    async with serving() as house:
        link = house.server.login_url()
        assert TOKEN not in link
        async with house.stranger.head(link) as response:  # a preview does not use it up
            assert response.status == 200
        async with house.stranger.get(link, allow_redirects=False) as response:
            assert (response.status, response.headers["location"]) == (303, "/")
            cookie = SimpleCookie(response.headers["set-cookie"])
        (morsel,) = cookie.values()
        assert morsel["httponly"]
        assert morsel["samesite"] == "Strict"
        assert TOKEN not in morsel.value
        async with house.stranger.get("/api/status") as response:
            assert response.status == 200
        house.stranger.cookie_jar.clear()
        async with house.stranger.get(link, allow_redirects=False) as response:
            assert (response.status, response.headers["location"]) == (303, "/#link-used")
            assert "set-cookie" not in response.headers


async def test_a_login_link_ends_after_ten_minutes() -> None:
    async with serving() as house:
        link = house.server.login_url()
        await house.clock.advance(CODE_LIFE_S + 1)
        async with house.stranger.get(link, allow_redirects=False) as response:
            assert "set-cookie" not in response.headers


async def test_new_login_links_come_from_the_control_socket() -> None:
    async with serving() as house:
        async with house.control.post("/api/login-codes") as response:
            link = (await response.json())["url"]
        assert re.fullmatch(re.escape(house.url) + r"/\?login=[\w-]{20,}", link)
        async with house.stranger.get(link) as response:
            assert response.status == 200
            assert response.url.query_string == ""
        async with house.stranger.get("/api/sessions") as response:
            assert response.status == 200


async def test_the_token_itself_logs_in_and_logging_out_takes_the_cookie_back() -> None:
    async with serving() as house:
        await refused(house, 401, "POST", "/api/login", json={"token": "wrong"})
        async with house.stranger.post("/api/login", json={"token": f" {TOKEN} "}) as response:
            assert response.status == 200
        async with house.stranger.get("/api/status") as response:
            assert response.status == 200
        async with house.stranger.post("/api/logout", headers={"Origin": house.url}) as response:
            assert response.status == 200
        async with house.stranger.get("/api/status") as response:
            assert response.status == 401


def test_codes_do_not_grow_without_limit() -> None:
    codes = LoginCodes(ManualClock())
    first, *_, last = [codes.make() for _ in range(MOST_CODES + 1)]
    assert not codes.use(first)
    assert codes.use(last)
    assert not codes.use(last)


def test_the_cookie_survives_a_restart_and_not_a_new_token() -> None:
    def cookie(token: str) -> str:
        return Access(SecretStr(token), host="127.0.0.1", clock=ManualClock()).cookie(secure=False)

    assert cookie("one") == cookie("one")
    assert cookie("one").partition("=")[0] != cookie("two").partition("=")[0]
    assert "Secure" in Access(SecretStr("one"), host="::1", clock=ManualClock()).cookie(secure=True)


async def test_pages_carry_headers_that_keep_them_ours() -> None:
    async with serving() as house:
        async with house.stranger.get("/") as response:
            policy = response.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert response.headers["x-content-type-options"] == "nosniff"
            assert response.headers["referrer-policy"] == "no-referrer"
            tag = response.headers["etag"]
        async with house.stranger.get("/", headers={"If-None-Match": tag}) as response:
            assert response.status == 304
        async with house.stranger.get("/static/..%2Fserver.py") as response:
            assert response.status == 404
