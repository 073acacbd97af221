"""Programs among themselves, and more than a chat may say: counted by the channel, whatever threads there are."""

from pathlib import Path
from typing import Any

import pytest

from tests.counterparts.model_server import Say
from tests.platforms.walking import walk

pytestmark = pytest.mark.slow

ROBOT: dict[str, dict[str, Any]] = {
    "slack": {"event": {"bot_id": "B0ROBOT001", "subtype": "bot_message", "username": "robot"}},
    "discord": {"bot": True},
}


async def test_programs_get_three_answers_in_a_channel_until_a_person_speaks(tmp_path: Path) -> None:
    async with walk(tmp_path / "home", "slack", "discord", access={"bots": "addressed"}) as found:
        server = found.server
        server.when("are you there", Say("I am."))
        server.when("ping", Say("pong"))
        for place in found.places.values():
            for _ in range(6):
                await place.says("robot", "ping", **ROBOT[place.name])
            await place.told("pong", 3)
            await place.says("robot", "/new", **ROBOT[place.name])
            await place.says("robot", "ping", mention=False, **ROBOT[place.name])
            await place.says("xenia", "are you there?")
            await place.told("I am.")
            assert len([text for text in await place.texts("lobby") if "pong" in text]) == 3
            await place.says("robot", "ping", **ROBOT[place.name])
            await place.told("pong", 4)
            assert "new conversation" not in str(await place.texts("lobby")).lower()


async def test_a_chat_is_limited_as_a_whole_and_stop_never(tmp_path: Path) -> None:
    async with walk(tmp_path / "home", "slack", "discord", access={"chat_per_minute": 4}) as found:
        found.server.when("hello", Say("Hi!"))
        for place in found.places.values():
            for number in range(6):
                await place.says(f"user{number}", "hello")
            await place.told("more than I can take in one chat")
            await place.says("user9", "/stop" if place.name == "discord" else "!stop")
            await place.told("Nothing is running")
            await place.told("Hi!", 2)
            answers = [text for text in await place.texts("lobby") if "Hi!" in text]
            assert 2 <= len(answers) <= 4
            assert len([text for text in await place.texts() if "more than I can" in text]) == 1
