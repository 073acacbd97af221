"""Strangers, owners and members on two services at once: pairing, /whoami, /sethome, /resume, each in their own."""

import re
from pathlib import Path

import pytest

from tests.counterparts.model_server import Say
from tests.platforms.walking import walk
from tests.process.real import callboard

pytestmark = pytest.mark.slow


async def test_each_service_knows_its_own_people_only(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with walk(home, "discord", "telegram") as found:
        discord, telegram = found["discord"], found["telegram"]
        await discord.says("sam", "hello", "d-sam", dm=True)
        offer = await discord.told("I do not know you yet")
        code = re.search(r"approve ([A-Z0-9-]+)", offer.text)
        assert code is not None
        await telegram.says("sam", f"/access approve {code[1]}", "lobby")
        await telegram.told("is for an admin")
        await discord.says("xenia", f"/access approve {code[1]}", "lobby")
        await discord.told("is for an admin")
        await discord.says("ann", f"/access approve {code[1]}", "lobby")
        await discord.told("may talk to me now")
        found.server.when("and now", Say("Now yes."))
        await discord.says("sam", "and now?", "d-sam", dm=True)
        await discord.told("Now yes.")
        await telegram.says("sam", "and here?", "d-sam", dm=True)
        await telegram.told("I do not know you yet")
        for place in found.places.values():
            await place.says("xenia", "/whoami")
            await place.told("user")
            await place.says("ann", "/whoami")
            await place.told("owner", 2)
        assert not found.asked("and here?")


async def test_a_home_is_chosen_live_and_what_answers_nobody_goes_there(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with walk(home, "discord", "slack") as found:
        for place in found.places.values():
            await place.says("xenia", "/sethome")
            await place.told("is for an admin")
            await place.says("ann", "/sethome")
            await place.told("home")
            code, out, err = await callboard(home, "send", place.name, "the build is green")
            assert code == 0, (out, err)
            assert (await place.told("the build is green")).chat == "lobby"


async def test_conversations_of_people_in_one_group_stay_apart_and_can_be_resumed(tmp_path: Path) -> None:
    async with walk(tmp_path / "home", "discord", "telegram") as found:
        server = found.server
        for place in found.places.values():
            for who in ("xenia", "yuri"):
                server.when(f"{who} says", Say(f"noted for {who}"))
                await place.says(who, f"{who} says swordfish-{place.name}-{who}")
                await place.told(f"noted for {who}")
            assert f"swordfish-{place.name}-xenia" not in str(server.requests[-1].body)
            await place.says("xenia", "/new")
            await place.told("new conversation")
            await place.says("yuri", "/resume")
            await place.says("xenia", "/sessions")
            listed = (await place.told("swordfish")).text
            assert f"swordfish-{place.name}-xenia" in listed.replace("\\", "")
            assert "yuri" not in listed
