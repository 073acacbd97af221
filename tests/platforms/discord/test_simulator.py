"""The simulated Discord itself: the whole of discord.py, unmodified, works with it; and it is as strict as the real one."""

import asyncio
import io
import json
import zlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import yarl

from actors.gateway.platforms.discord.sdk import DiscordWebSocket, discord
from tests.platforms.simulators.discord import DiscordSimulator
from tests.platforms.simulators.discord_world import TOKEN

pytestmark = pytest.mark.slow

HEADERS = {"Authorization": f"Bot {TOKEN}", "User-Agent": "DiscordBot (test, 1)"}


@pytest.fixture
async def http(sim: DiscordSimulator) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(sim.api + "/", headers=HEADERS) as session:
        yield session


class Bot(discord.Client):
    """A small bot, as people write them."""

    def __init__(self) -> None:
        intents = discord.Intents.default()
        intents.message_content = True
        super().__init__(intents=intents)
        self.tree = discord.app_commands.CommandTree(self)
        self.seen: asyncio.Queue[str] = asyncio.Queue()

    async def on_ready(self) -> None:
        await self.seen.put("ready")

    async def on_resumed(self) -> None:
        await self.seen.put("resumed")

    async def on_message(self, message: discord.Message) -> None:
        if message.author != self.user:
            await self.seen.put(message.content)


async def wants(bot: Bot, what: str) -> None:
    async with asyncio.timeout(30):
        while await bot.seen.get() != what:
            pass


async def test_the_whole_sdk_works_with_it(sim: DiscordSimulator, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = sim.api.replace("http", "ws", 1).removesuffix("/api/v10") + "/gateway"
    monkeypatch.setattr(discord.http.Route, "BASE", sim.api)
    monkeypatch.setattr(DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(gateway))
    message_id = int(await sim.says("lobby", "ann", "hi"))
    bot = Bot()

    @bot.tree.command(name="ask", description="Ask")
    async def ask(interaction: discord.Interaction, text: str) -> None:
        await interaction.response.defer()
        await interaction.followup.send(f"answer to {text}")

    running = asyncio.create_task(bot.start(TOKEN))
    try:
        await wants(bot, "ready")
        (guild,) = bot.guilds
        assert guild.name == "Sim"
        (lobby,) = guild.text_channels
        question = await lobby.fetch_message(message_id)
        answer = await question.reply("hello", mention_author=False)
        await answer.edit(content="hello again")
        await question.add_reaction("👀")
        await lobby.typing()
        await lobby.send("a file", file=discord.File(io.BytesIO(b"abc"), "a.txt"))
        assert [command.name for command in await bot.tree.sync()] == ["ask"]
        assert [message.content async for message in lobby.history(limit=2)] == ["a file", "hello again"]
        await sim.control("asks", chat="lobby", user="ann", name="ask", text="42")
        await sim.misbehaves("close", code=4000)
        await sim.says("lobby", "ann", "meanwhile", mention=False)
        await wants(bot, "meanwhile")
        await sim.misbehaves("reconnect")
        await wants(bot, "resumed")
        with pytest.raises(discord.HTTPException, match="2000"):
            await lobby.send("x" * 2001)
        await sim.misbehaves("rate_limit", method="POST", path="/messages", retry_after=0.1)
        await lobby.send("after the limit")
    finally:
        await bot.close()
        await asyncio.gather(running, return_exceptions=True)
    posts = {post.text: post for post in await sim.posts("lobby")}
    assert posts["hello again"].edits == 1
    assert posts["a file"].files == ("a.txt",)
    assert "answer to 42" in posts
    assert "after the limit" in posts


async def test_it_speaks_zlib_too(sim: DiscordSimulator) -> None:
    address = sim.api.removesuffix("/api/v10") + "/gateway?v=10&encoding=json&compress=zlib-stream"
    inflate = zlib.decompressobj()

    async def told(socket: aiohttp.ClientWebSocketResponse) -> Any:
        data = await socket.receive_bytes()
        assert data.endswith(b"\x00\x00\xff\xff")
        return json.loads(inflate.decompress(data))

    async with aiohttp.ClientSession() as session, session.ws_connect(address) as socket:
        assert (await told(socket))["op"] == 10
        await socket.send_json({"op": 2, "d": {"token": TOKEN, "intents": 1}})
        assert [(await told(socket))["t"] for _ in range(2)] == ["READY", "GUILD_CREATE"]


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        ({"op": 2, "d": {"token": "wrong", "intents": 1}}, 4004),
        ({"op": 2, "d": {"token": TOKEN, "intents": 1 << 40}}, 4013),
        ({"op": 2, "d": {"token": TOKEN, "intents": 1, "shard": [3, 1]}}, 4010),
        ({"op": 8, "d": {}}, 4003),
        ({"op": 6, "d": {"token": "wrong", "session_id": "x", "seq": 1}}, 4004),
        ("not an object", 4002),
    ],
)
async def test_the_gateway_is_strict(sim: DiscordSimulator, payload: object, code: int) -> None:
    address = sim.api.removesuffix("/api/v10") + "/gateway?v=10"
    async with aiohttp.ClientSession() as session, session.ws_connect(address) as socket:
        await socket.receive_json()
        await socket.send_json(payload)
        await socket.receive()
        assert socket.close_code == code


@pytest.mark.parametrize(
    ("payload", "status", "code"),
    [
        ({"content": "x" * 2001}, 400, 50035),
        ({"content": "  "}, 400, 50006),
        ({"content": "x", "nonce": "n" * 26}, 400, 50035),
        (
            {
                "content": "x",
                "components": [{"type": 1, "components": [{"custom_id": "a", "label": "b"}] * 2}],
            },
            400,
            50035,
        ),
        ({"content": "x", "message_reference": {"message_id": "1"}}, 400, 50035),
    ],
)
async def test_posts_are_checked(
    sim: DiscordSimulator, http: aiohttp.ClientSession, payload: object, status: int, code: int
) -> None:
    await sim.says("lobby", "ann", "hi")
    lobby = await sim.id_of("lobby")
    async with http.post(f"channels/{lobby}/messages", json=payload) as response:
        assert (response.status, json.loads(await response.text())["code"]) == (status, code)


async def test_calls_are_limited_in_each_channel(sim: DiscordSimulator, http: aiohttp.ClientSession) -> None:
    await sim.says("lobby", "ann", "hi")
    lobby = await sim.id_of("lobby")
    statuses = []
    for _ in range(6):
        async with http.post(f"channels/{lobby}/messages", json={"content": "x"}) as response:
            statuses.append(response.status)
    assert statuses == [200] * 5 + [429]
    assert response.headers["Via"]
    assert float(response.headers["X-RateLimit-Reset-After"]) > 0
