"""The real program with real mail servers: from a mail to its answer, through a kill."""

import asyncio
from pathlib import Path

import pytest

from tests.counterparts.mail import Correspondent, MailServers, body_of
from tests.counterparts.model_server import ModelServer
from tests.platforms.email.conftest import Bot
from tests.process.real import PATIENCE_S, Program, scripted

pytestmark = pytest.mark.slow


async def connected(program: Program) -> None:
    """Wait for the first connection ever: only what comes after it counts as new."""
    async with asyncio.timeout(PATIENCE_S), program.http() as http:
        while True:
            async with http.get("/api/status") as response:
                if (await response.json())["platforms"].get("email") == "connected":
                    return
            await asyncio.sleep(0.05)


async def test_a_mail_is_answered_through_a_kill_and_a_strangers_is_not(
    bot: Bot, ann: Correspondent, mail: MailServers, tmp_path: Path
) -> None:
    eve = mail.person("eve")
    async with ModelServer() as server:
        email = {"access": {"users": [ann.address]}, "options": bot.options}
        settings = {**scripted(server.base_url), "platforms": {"email": email}}
        async with Program(tmp_path / "home", settings) as program:
            await connected(program)
            await asyncio.to_thread(ann.sends, bot.address, "Numbers", "what is one?")
            (first,) = await asyncio.to_thread(ann.gets)
            assert first["Subject"] == "Re: Numbers"
            assert body_of(first).endswith("what is one?")
            await program.kill()
            await asyncio.to_thread(ann.answers, first, "and two?")
            await asyncio.to_thread(eve.sends, bot.address, "Me too", "and me?")
            await program.start()
            second = (await asyncio.to_thread(ann.gets, 2))[1]
            assert body_of(second).endswith("and two?")
            assert str(second["References"]).split()[0] == str(first["References"]).split()[0]
            await asyncio.to_thread(ann.sends, bot.address, "Other", "something else")
            third = (await asyncio.to_thread(ann.gets, 3))[2]
            assert third["Subject"] == "Re: Other"
            assert body_of(third).endswith("something else")
            assert eve.inbox() == []
            assert len(ann.inbox()) == 3
