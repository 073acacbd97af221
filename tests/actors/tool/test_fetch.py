"""Fetching, over real sockets on loopback."""

import asyncio
import gzip
import socket
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from ipaddress import ip_address
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from actors.tool.addresses import Address, public, public_or_private
from actors.tool.fetch import NOT_ALLOWED, Fetcher, Page, checked_url
from actors.tool.run import ToolError
from tests.actors.tool.shop import Shop

INTERNAL_BODY = "the internal secret"


class Names(AbstractResolver):
    """A name server of one's own: what each name resolves to, question by question."""

    def __init__(self, **names: list[list[str]]) -> None:
        self.names = {name.replace("_", "."): answers for name, answers in names.items()}
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        answers = self.names.get(host)
        if answers is None:
            raise OSError(f"no such host {host}")
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            ResolveResult(
                hostname=host,
                host=a,
                port=port,
                family=socket.AF_INET6 if ":" in a else socket.AF_INET,
                proto=0,
                flags=0,
            )
            for a in addresses
        ]

    async def close(self) -> None:
        return


class Site:
    """A web server on loopback that remembers what reached it."""

    def __init__(self) -> None:
        self.pages: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {}
        self.requests: list[web.Request] = []
        self.port = 0

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request, web.BaseRequest)
        self.requests.append(request)  # type: ignore[arg-type]
        page = self.pages.get(request.path)
        return await page(request) if page else web.Response(text=INTERNAL_BODY)  # type: ignore[arg-type]

    def gives(self, path: str, **response: Any) -> None:
        async def page(_: web.Request) -> web.Response:
            return web.Response(**response)

        self.pages[path] = page

    def sends_on(self, path: str, to: str, status: int = 302) -> None:
        self.gives(path, status=status, headers={"Location": to}, text=INTERNAL_BODY)

    def url(self, path: str, host: str = "site.test") -> str:
        return f"http://{host}:{self.port}{path}"


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    runner = web.ServerRunner(web.Server(site.serve), handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    tcp = web.TCPSite(runner, "127.0.0.1", 0)
    await tcp.start()
    site.port = runner.addresses[0][1]
    yield site
    await runner.cleanup()


def only_site(address: Address) -> bool:
    """A policy for which our own server, at 127.0.0.1, stands for the public internet."""
    return address == ip_address("127.0.0.1") or public(address)


@pytest.fixture
def names() -> Names:
    return Names(site_test=[["127.0.0.1"]], other_test=[["127.0.0.1"]], inside_test=[["127.0.0.2"]])


@pytest.fixture
def fetcher(names: Names) -> Fetcher:
    return Fetcher(only_site, names)


async def refused(fetcher: Fetcher, url: str) -> str:
    with pytest.raises(ToolError) as error:
        await fetcher.fetch(url)
    assert INTERNAL_BODY not in str(error.value)
    return str(error.value)


HOSTS = [
    "127.0.0.1", "127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "0", "0.0.0.0", "[::1]", "[::]",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:169.254.169.254]", "[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]",
    "100.64.0.1", "169.254.169.254", "10.0.0.1", "192.168.0.1", "172.16.0.1", "224.0.0.1", "[fe80::1]", "[fd00::1]",
    "[2002:7f00:1::]", "[2001:0:4136:e378:8000:63bf:3fff:fdd2]", "localhost", "localhost.", "LOCALHOST", "127.0.0.1.",
    "127.0.0.1..", "①②⑦.0.0.1", "１２７.0.0.1", "127。0。0。1", "%31%32%37.0.0.1",  # noqa: RUF001 the point
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
async def test_X04_no_connection_is_made_to_an_address_that_is_not_public(site: Site, host: str) -> None:
    why = await refused(Fetcher(), f"http://{host}:{site.port}/")
    assert why in {NOT_ALLOWED, "This is not a URL.", f"The host {host} cannot be found."}
    assert site.requests == []


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "gopher://site.test/", "ftp://site.test/", "data:text/plain,x", "javascript:x", "//site.test/",
     "site.test", "", "http://", "http:///x", "http://user@site.test/", "http://user:pass@site.test/",
     "http://site.test@127.0.0.1/", "http://site.test\\@127.0.0.1/", "http://site.test /", "http://site.test/\r\nHost: x",
     "http://@site.test/", "http://[::1", "http://site.test:99999/"],
)  # fmt: skip
async def test_X04_only_plain_http_urls_are_tried(url: str) -> None:
    with pytest.raises(ToolError):
        checked_url(url)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest",
        "http://inside.test/",
        "http://[::1]/",
        "//127.1/",
        "http://127.0.0.2/",
    ],
)
async def test_X04_a_redirect_is_checked_like_the_first_address(
    site: Site, fetcher: Fetcher, target: str, status: int
) -> None:
    site.sends_on("/", target, status)
    assert await refused(fetcher, site.url("/")) == NOT_ALLOWED
    assert len(site.requests) == 1


@pytest.mark.parametrize("target", ["file:///etc/passwd", "gopher://site.test/", "http://u:p@site.test/"])
async def test_X04_a_redirect_to_another_scheme_or_a_user_is_not_followed(
    site: Site, fetcher: Fetcher, target: str
) -> None:
    site.sends_on("/", target)
    await refused(fetcher, site.url("/"))
    assert len(site.requests) == 1


async def test_X04_redirects_have_an_end(site: Site, fetcher: Fetcher) -> None:
    for n in range(10):
        site.sends_on(f"/{n}", f"/{n + 1}")
    assert "redirects more than 5 times" in await refused(fetcher, site.url("/0"))
    assert len(site.requests) == 6
    site.gives("/10", text="arrived")
    assert (await fetcher.fetch(site.url("/5"))).text == "arrived"


@pytest.mark.parametrize(
    "answer", [["127.0.0.1", "10.0.0.1"], ["10.0.0.1", "127.0.0.1"], ["127.0.0.1", "::1"]]
)
async def test_X04_a_name_with_one_private_address_among_others_is_refused(
    site: Site, answer: list[str]
) -> None:
    fetcher = Fetcher(only_site, Names(mixed_test=[answer]))
    assert await refused(fetcher, site.url("/", "mixed.test")) == NOT_ALLOWED
    assert site.requests == []


async def test_X04_a_name_that_changes_after_the_check_gains_nothing(site: Site) -> None:
    names = Names(rebind_test=[["127.0.0.1"], ["127.0.0.2"]])
    fetcher = Fetcher(only_site, names)
    assert (await fetcher.fetch(site.url("/", "rebind.test"))).text == INTERNAL_BODY
    assert names.asked == ["rebind.test"]  # once: what was checked is what was connected to
    assert await refused(fetcher, site.url("/", "rebind.test")) == NOT_ALLOWED
    assert len(site.requests) == 1


async def test_X04_the_socket_itself_refuses_whatever_the_resolver_lets_through(site: Site) -> None:
    asked: list[Address] = []

    def fickle(address: Address) -> bool:
        asked.append(address)
        return len(asked) == 1  # yes when the name is resolved, no when the socket is made

    assert await refused(Fetcher(fickle, Names(site_test=[["127.0.0.1"]])), site.url("/")) == NOT_ALLOWED
    assert len(asked) == 2
    assert site.requests == []


async def test_X04_credentials_do_not_go_on_to_another_host(site: Site, fetcher: Fetcher) -> None:
    site.sends_on("/same", "/end")
    site.sends_on("/other", site.url("/end", "other.test"))
    sent = {"Authorization": "Bearer s3cret", "X-Api-Key": "k", "Cookie": "c=1", "Accept": "text/plain"}
    await fetcher.fetch(site.url("/same"), sent)
    assert site.requests[-1].headers["Authorization"] == "Bearer s3cret"
    await fetcher.fetch(site.url("/other"), sent)
    last = site.requests[-1].headers
    assert last["Accept"] == "text/plain"
    assert not {"Authorization", "X-Api-Key", "Cookie"} & set(last)


@pytest.mark.parametrize(
    "headers", [{"Host": "x"}, {"A b": "x"}, {"X": "a\r\nB: c"}, {"Content-Length": "1"}]
)
async def test_headers_that_would_change_the_request_are_refused(
    fetcher: Fetcher, headers: dict[str, str]
) -> None:
    with pytest.raises(ToolError, match="header"):
        await fetcher.fetch("http://site.test/", headers)


async def test_private_addresses_are_reached_with_permission(site: Site, names: Names) -> None:
    fetcher = Fetcher(public_or_private, names)
    assert (await fetcher.fetch(f"http://127.0.0.1:{site.port}/")).status == 200
    assert await refused(fetcher, "http://169.254.169.254/") == NOT_ALLOWED


async def test_a_page_is_given_as_text_with_where_it_came_from(site: Site, fetcher: Fetcher) -> None:
    site.gives(
        "/",
        body="<p>grüße <a href='/x'>x</a>".encode("latin-1"),
        headers={"Content-Type": "text/html; charset=latin-1"},
    )
    assert await fetcher.fetch(site.url("/")) == Page(
        site.url("/"), 200, "text/html", f"grüße x ({site.url('/x')})"
    )
    site.gives("/json", text='{"a": 1}', content_type="application/json")
    assert (await fetcher.fetch(site.url("/json"))).text == '{"a": 1}'
    site.gives("/png", body=b"\x89PNG\r\n\x1a\n" + bytes(100), headers={"Content-Type": "image/png"})
    assert (await fetcher.fetch(site.url("/png"))).text == "[not text: image/png, 108 bytes]"
    site.gives("/gone", status=404, text="not here")
    assert (await fetcher.fetch(site.url("/gone"))).status == 404


@pytest.mark.parametrize(
    "codec", ["zip", "unicode_escape", "punycode", "idna", "rot13", "no-such", "x" * 300]
)
async def test_a_charset_that_is_none_is_not_used(site: Site, fetcher: Fetcher, codec: str) -> None:
    site.gives("/", body="grüße".encode(), headers={"Content-Type": f"text/plain; charset={codec}"})
    assert (await fetcher.fetch(site.url("/"))).text == "grüße"


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda data: zlib.compress(data)[2:-4]),
        ("identity", lambda data: data),
    ],
)
async def test_a_packed_page_is_unpacked_and_a_bomb_stays_small(
    site: Site, names: Names, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    site.gives("/", body=pack(b"hello"), headers={"Content-Type": "text/plain", "Content-Encoding": encoding})
    assert (await Fetcher(only_site, names).fetch(site.url("/"))).text == "hello"
    bomb = pack(b"x" * 50_000_000)
    site.gives("/bomb", body=bomb, headers={"Content-Type": "text/plain", "Content-Encoding": encoding})
    page = await Fetcher(only_site, names, most_bytes=10_000).fetch(site.url("/bomb"))
    assert page.text == "x" * 10_000 + "\n[cut: only the first 10,000 bytes were read]"


async def test_a_page_that_never_ends_is_given_up(site: Site, names: Names) -> None:
    over = asyncio.Event()

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await response.write(b"x")
        await over.wait()
        return response

    site.pages["/"] = drip
    why = await refused(Fetcher(only_site, names, timeout_s=0.2), site.url("/"))
    over.set()
    assert why == "The server did not answer within 0.2 s."


async def test_failures_are_told_without_what_the_server_said(site: Site, fetcher: Fetcher) -> None:
    assert await refused(fetcher, "http://nowhere.test/") == "The host nowhere.test cannot be found."
    site.gives("/bad", body=b"not gzip", headers={"Content-Encoding": "gzip"})
    assert "damaged" in await refused(fetcher, site.url("/bad"))
    site.gives("/br", body=b"x", headers={"Content-Encoding": "br"})
    assert "was not asked for" in await refused(fetcher, site.url("/br"))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    assert "does not accept connections" in await refused(fetcher, f"http://site.test:{port}/")


async def test_X04_the_tool_itself_is_strict(shop: Shop, site: Site) -> None:
    finished = await shop.call("fetch_url", url=f"http://127.0.0.1:{site.port}/")
    assert (finished.status, finished.text) == ("error", NOT_ALLOWED)
    assert site.requests == []
