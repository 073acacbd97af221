"""The token stands nowhere."""

import io
import json
import logging
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from actors.clock import WallClock
from actors.gateway.edge import EdgeError
from actors.logs import set_up_logs
from actors.redaction import Redactor
from messages.settings import LogSettings
from tests.platforms.simulators.telegram import TelegramSimulator
from tests.platforms.simulators.telegram_world import TOKEN
from tests.platforms.telegram.stage import (
    Line,
    post,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("level", ["debug", "info"])
@pytest.mark.parametrize("known", [True, False], ids=["registered", "by its shape"])
async def test_X14_the_token_stands_in_no_line_of_the_log(
    sim: TelegramSimulator, tmp_path: Path, level: str, known: bool
) -> None:
    out = io.StringIO()
    redactor = Redactor([TOKEN] if known else [])
    logs = set_up_logs(LogSettings(format="json", level=level), redactor, home=tmp_path, stream=out)
    for name in ("httpx", "httpcore", "telegram"):
        logging.getLogger(name).setLevel(logging.DEBUG if level == "debug" else logging.INFO)
    try:
        async with Line(sim, tmp_path, WallClock()) as line:
            await sim.says("kitchen", "ann", "see", document={"name": "a.txt", "text": "x"})
            await line.hears(1)
            chat = await line.chat_id("kitchen")
            await sim.misbehaves("bad_gateway", method="sendMessage")
            await sim.misbehaves("drop", method="sendMessage")
            await sim.misbehaves("cut_file")
            for number in range(3):
                try:
                    await line.edge.say(post(chat, "x", key=f"{number}" * 24))
                except EdgeError:
                    logging.getLogger("anybody").exception("a post failed")
            await sim.says("kitchen", "ann", "and", document={"name": "a.txt", "size": 99_999})
            await line.hears(2)
        await _direct_calls(sim)
    finally:
        logs.close()
    written = out.getvalue() + (tmp_path / "logs" / "callboard.log").read_text()
    assert "/bot" in written or level == "info"
    assert "HTTP Request: POST http" in written
    assert TOKEN not in written
    assert TOKEN.partition(":")[2][:20] not in written
    for each in (json.loads(line) for line in out.getvalue().splitlines()):
        assert TOKEN[-12:] not in json.dumps(each)


async def _direct_calls(sim: TelegramSimulator) -> None:
    """What any code could do with the library: its errors hold the whole address, also as causes."""
    log = logging.getLogger("anybody")
    async with httpx.AsyncClient(trust_env=False) as http:
        for url in (f"{sim.api}/file/bot{TOKEN}/nothing", f"http://127.0.0.1:1/bot{TOKEN}/getMe"):
            try:
                (await http.get(url)).raise_for_status()
            except httpx.HTTPError as error:
                try:
                    raise RuntimeError(f"no luck with {url}") from error  # noqa: TRY301
                except RuntimeError:
                    log.exception("failed at %s", url)


@pytest.mark.parametrize("path", ["/bot{}/getUpdates", "/file/bot{}/documents/file_7.pdf", "/bot{}", " {} "])
def test_X14_a_token_that_nobody_registered_is_known_by_its_shape_in_both_addresses(path: str) -> None:
    secret = TOKEN.partition(":")[2]
    text = f"GET https://api.telegram.org{path.format(TOKEN)} failed"
    assert secret[:12] not in Redactor().clean(text)
    for cut in range(1, len(text)):
        stream = Redactor().stream()
        shown = stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.flush()
        assert secret[:12] not in shown, cut


@pytest.mark.parametrize("token", ["123456:AAFake-token_of-an-old-bot", TOKEN])
@pytest.mark.parametrize("form", ["{}", "%s", "'{}'", '{{"url": "https:\\/\\/h\\/bot{}\\/getMe"}}'])
def test_X14_a_registered_token_is_masked_whatever_its_length(token: str, form: str) -> None:
    redactor = Redactor([token])
    for written in (token, quote(token, safe=""), token.replace(":", "%3a")):
        shown = redactor.clean(form.replace("%s", "{}").format(written))
        assert token.partition(":")[2][:10] not in shown
