"""The web page in a real browser, against the server on a real socket."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright, expect

from messages.ids import SessionKey
from tests.actors.console.serving import House, console, serving

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 30_000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="/usr/bin/chromium is not installed"),
]


@asynccontextmanager
async def browsing(house: House, **how: object) -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        try:
            context = await browser.new_context(**how)  # type: ignore[arg-type]
            page = await context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            errors: list[str] = []
            page.on("pageerror", lambda error: errors.append(str(error)))
            await page.goto(house.server.login_url())
            await expect(page.locator("#link")).to_have_text("Connected")
            yield page
            assert errors == []
        finally:
            await browser.close()


async def send(page: Page, text: str) -> None:
    await page.get_by_label("Message", exact=True).fill(text)
    await page.keyboard.press("Enter")


async def entries(page: Page) -> list[str]:
    found = page.locator("#log .entry .bubble, #log .entry .md")
    return [text.strip() for text in await found.all_inner_texts()]


def key_of(house: House) -> SessionKey:
    (key,) = [key for key, talk in house.desk.talks.items() if talk.entries]
    return key


@pytest.fixture(autouse=True)
def patience() -> None:
    expect.set_options(timeout=PATIENCE_MS)


async def test_a_message_is_sent_and_its_answer_streams() -> None:
    async with serving() as house, browsing(house) as page:
        house.desk.streams("Once **upon**")
        await send(page, "tell me")
        await expect(page.locator("#live .draft strong")).to_have_text("upon")
        await expect(page.locator("#log .user .bubble")).to_have_text("tell me")
        await expect(page.locator("#pending > *")).to_have_count(0)
        house.desk.adds(" a time")
        await expect(page.locator("#live .draft")).to_contain_text("Once upon a time")
        house.desk.finish()
        await expect(page.locator("#log .assistant .md")).to_have_text("Once upon a time")
        await expect(page.locator("#live > *")).to_have_count(0)
        assert await entries(page) == ["tell me", "Once upon a time"]
        assert "login" not in page.url
        assert house.desk.spoken[0].can_confirm


async def test_the_stop_button_and_the_escape_key_end_the_turn() -> None:
    async with serving() as house, browsing(house) as page:
        for way in ("button", "key"):
            house.desk.streams("Once")
            await send(page, "tell me")
            await expect(page.locator("#stop")).to_be_visible()
            if way == "button":
                await page.locator("#stop").click()
            else:
                await page.keyboard.press("Escape")
            await expect(page.locator("#stop")).to_be_hidden()
        await expect(page.locator("#log .notice")).to_have_count(2)
        await expect(page.locator("#live > *")).to_have_count(0)


async def test_a_reload_in_mid_answer_goes_on_with_the_draft() -> None:
    async with serving() as house, browsing(house) as page:
        house.desk.streams("Once", " upon")
        await send(page, "tell me")
        await expect(page.locator("#live .draft")).to_contain_text("Once upon")
        await page.reload()
        await expect(page.locator("#live .draft")).to_contain_text("Once upon")
        house.desk.adds(" a time")
        await expect(page.locator("#live .draft")).to_contain_text("Once upon a time")
        house.desk.finish()
        await expect(page.locator("#log .assistant .md")).to_have_text("Once upon a time")
        assert await entries(page) == ["tell me", "Once upon a time"]


async def test_a_server_that_restarts_loses_and_doubles_nothing() -> None:
    async with serving() as house, browsing(house) as page:
        await send(page, "first")
        await expect(page.locator("#log .assistant")).to_have_count(1)
        port = int(house.url.rpartition(":")[2])
        await house.server.stop()
        await expect(page.locator("#link")).to_have_attribute("data-state", "away")
        await send(page, "second")
        await expect(page.locator("#pending .waiting")).to_have_count(1)
        house.desk.talks[key_of(house)].enter("notice", "said meanwhile")
        again = console(house.desk, house.home, house.clock, port=port)
        await again.start()
        try:
            await expect(page.locator("#log .assistant")).to_have_count(2)
            await expect(page.locator("#link")).to_have_text("Connected")
            await expect(page.locator("#pending > *")).to_have_count(0)
            assert await entries(page) == [
                "first",
                "you said: first",
                "said meanwhile",
                "second",
                "you said: second",
            ]
            await send(page, "third")
            await expect(page.locator("#log .assistant")).to_have_count(3)
            assert [heard.text for heard in house.desk.spoken] == ["first", "second", "third"]
        finally:
            await page.close()
            await again.stop()


async def test_a_message_that_was_taken_but_not_acknowledged_is_not_doubled() -> None:
    async with serving() as house, browsing(house) as page:
        # The server takes the message; the network loses its receipt.
        async def lose_the_receipt(route: object) -> None:
            await route.fetch()  # type: ignore[attr-defined]
            await route.abort()  # type: ignore[attr-defined]

        await page.route("**/api/messages", lose_the_receipt, times=1)
        await send(page, "hello")
        await expect(page.locator("#log .assistant")).to_have_count(1)
        await expect(page.locator("#pending > *")).to_have_count(0)
        await page.reload()
        await expect(page.locator("#log .assistant")).to_have_count(1)
        assert await entries(page) == ["hello", "you said: hello"]
        assert len({heard.message_id for heard in house.desk.spoken}) == 1


async def test_a_message_that_is_refused_says_why_and_can_be_sent_again() -> None:
    async with serving() as house, browsing(house) as page:
        house.desk.refuse("busy, try again")
        await send(page, "hello")
        await expect(page.locator("#pending .failed .meta")).to_contain_text("busy, try again")
        await page.get_by_role("button", name="Try again").click()
        await expect(page.locator("#log .assistant")).to_have_count(1)
        await expect(page.locator("#pending > *")).to_have_count(0)


async def test_a_tool_is_shown_and_a_question_answered() -> None:
    async with serving() as house, browsing(house) as page:
        house.desk.will_ask("c1", "terminal", '{"command": "ls"}')
        await send(page, "list my files")
        ask = page.get_by_role("alertdialog")
        await expect(ask).to_contain_text('"command": "ls"')
        await page.get_by_role("button", name="Yes, run it").click()
        await expect(page.locator("#log .assistant")).to_contain_text("You said yes.")
        await expect(page.locator("#log .chip.ok .tool")).to_have_text("terminal")
        await expect(ask).to_have_count(0)
        assert house.desk.confirmed[0][2]


async def test_what_a_model_writes_is_never_a_tag_and_never_a_script() -> None:
    evil = (
        "<img src=x onerror=alert(1)> <script>alert(2)</script> [click](javascript:alert(3))"
        " [data](data:text/html,x) [ok](https://ok.example/a) **b** `<b>c</b>`\n\n"
        "```html\n<script>alert(4)</script>\n```\n- one\n- two\n  - three\n\n| a | b |\n|---|---|\n| 1 | <i>2</i> |\n"
    )
    async with serving() as house, browsing(house) as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        house.desk.will_answer(evil)
        await send(page, evil)
        body = page.locator("#log .assistant .md")
        await expect(body).to_contain_text("<img src=x onerror=alert(1)>")
        await expect(page.locator("#log img, #log script, #log i")).to_have_count(0)
        assert await body.locator("a").evaluate_all("all => all.map(a => a.href)") == ["https://ok.example/a"]
        await expect(body.locator("pre code")).to_have_text("<script>alert(4)</script>")
        await expect(body.locator("li li")).to_have_text("three")
        await expect(body.locator("td")).to_have_text(["1", "<i>2</i>"])


async def test_chats_are_listed_and_a_new_one_is_begun() -> None:
    async with serving() as house, browsing(house) as page:
        await send(page, "the first chat")
        await expect(page.locator("#log .assistant")).to_have_count(1)
        await page.get_by_role("button", name="New chat").click()
        await expect(page.locator("#log > *")).to_have_count(0)
        await expect(page.locator("#link")).to_have_text("Connected")
        await send(page, "the second chat")
        await expect(page.locator("#log .assistant")).to_have_count(1)
        await page.locator("#sessions button").filter(has_text="the first chat").click()
        await expect(page.locator("#log .bubble")).to_have_text("the first chat")
        await expect(page.locator("#title")).to_have_text("the first chat")


async def test_a_slash_offers_the_commands() -> None:
    async with serving() as house, browsing(house) as page:
        await page.get_by_label("Message", exact=True).press_sequentially("/st")
        await expect(page.get_by_role("option").first).to_be_visible()
        await page.get_by_label("Message", exact=True).press_sequentially("at")
        await page.keyboard.press("Tab")
        await expect(page.get_by_label("Message", exact=True)).to_have_value("/status ")
        await page.keyboard.press("Enter")
        await expect(page.locator("#log .bubble")).to_have_text("/status")
        await page.get_by_label("Message", exact=True).fill("one")
        await page.keyboard.press("Shift+Enter")
        await expect(page.get_by_label("Message", exact=True)).to_have_value("one\n")
        assert len(house.desk.spoken) == 1


async def test_a_stranger_is_asked_for_the_token() -> None:
    async with serving() as house, browsing(house) as page:
        await page.get_by_role("button", name="Log out").click()
        await expect(page.locator("#login")).to_be_visible()
        await page.goto(house.url + "/?login=no-such-code")
        await expect(page.locator("#login-why")).to_contain_text("used or is too old")
        await page.locator("#token").fill("wrong")
        await page.keyboard.press("Enter")
        await expect(page.locator("#login-error")).to_have_text("that is not the token")
        await page.locator("#token").fill("a-token-of-the-tests")
        await page.keyboard.press("Enter")
        await expect(page.locator("#login")).to_be_hidden()
        await expect(page.locator("#link")).to_have_text("Connected")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 380])
async def test_it_fits_the_screen(scheme: str, width: int) -> None:
    async with (
        serving() as house,
        browsing(house, color_scheme=scheme, viewport={"width": width, "height": 820}) as page,
    ):
        house.desk.will_use(
            "read_file",
            "name: callboard\nversion: 1",
            then="It is **Callboard**.\n\n- one\n- two\n\n```python\nprint('a rather long line of code that has to scroll, ' * 9)\n```\n",
        )
        await send(page, "What is in the file?")
        await expect(page.locator("#log .assistant")).to_have_count(1)
        house.desk.streams("Let me think about it: ")
        await send(page, "And then? " + "x" * 200)
        await expect(page.locator("#live .draft")).to_have_count(1)
        house.desk.says_status("The model is busy; trying again in 4 s")
        await expect(page.locator("#live .thinking")).to_have_count(1)
        fits = "document.documentElement.scrollWidth <= innerWidth && document.querySelector('#scroll').scrollWidth <= document.querySelector('#scroll').clientWidth"
        assert await page.evaluate(fits)
        if folder := os.environ.get("CALLBOARD_TEST_SCREENSHOTS"):
            await page.screenshot(path=f"{folder}/page-{scheme}-{width}.png")
        house.desk.finish()


async def test_a_conversation_of_another_place_can_be_read_and_not_written_in() -> None:
    async with serving() as house, browsing(house) as page:
        message = {"text": "from the terminal", "platform": "terminal"}
        async with house.control.post("/api/messages", json=message) as response:
            assert response.status == 202
        house.desk.talks[key_of(house)].enter("notice", "", status="new")
        await page.reload()
        await page.locator("#sessions button").filter(has_text="from the terminal").click()
        await expect(page.locator("#log .bubble")).to_have_text("from the terminal")
        await expect(page.locator("#log .aside")).to_have_count(1)
        await expect(page.locator("#readonly")).to_be_visible()
        await expect(page.get_by_label("Message", exact=True)).to_be_hidden()
