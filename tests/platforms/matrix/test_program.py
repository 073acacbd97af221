"""The real program with a real homeserver: from an invitation to an answer, through a kill, and in a process of its own."""

from pathlib import Path
from typing import Any

import pytest

from tests.counterparts.model_server import ModelServer
from tests.counterparts.synapse import Person, Synapse
from tests.platforms.matrix.conftest import Bot
from tests.process.real import Program, scripted

pytestmark = pytest.mark.slow


def settings(server: ModelServer, bot: Bot, ann: Person, **more: Any) -> dict[str, Any]:
    options = {"homeserver": bot.url, "access_token": bot.person.token}
    matrix = {"access": {"users": [ann.id]}, "options": options, **more}
    return {**scripted(server.base_url), "platforms": {"matrix": matrix}}


async def bodies(ann: Person, room: str, bot: Bot) -> list[str]:
    """What the bot's messages say now, the latest edits included."""
    found = []
    for event in await ann.messages(room, bot.id):
        edited = event.get("unsigned", {}).get("m.relations", {}).get("m.replace", {})
        content = edited.get("content", {}).get("m.new_content") or event["content"]
        found.append(content["body"])
    return found


@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_a_person_who_invites_us_is_answered_through_a_kill(
    bot: Bot, ann: Person, bob: Person, synapse: Synapse, tmp_path: Path, isolation: str
) -> None:
    async with ModelServer() as server:
        home = tmp_path / "home"
        async with Program(home, settings(server, bot, ann, isolation=isolation)) as program:
            room = await ann.makes_room(invite=[bot.id], is_direct=True)
            await ann.says(room, "what is one?")

            async def answered(word: str) -> bool:
                return any(word in text for text in await bodies(ann, room, bot))

            await ann.until(lambda: answered("what is one?"))
            await program.kill()
            await ann.says(room, "what is two?")
            await ann.says(room, "what is three?")
            await program.start()
            await ann.until(lambda: answered("what is three?"))
            stranger = await bob.makes_room(invite=[bot.id], is_direct=True)
            await bob.says(stranger, "and me?")
            await ann.says(room, "what is four?")
            await ann.until(lambda: answered("what is four?"))
            whole = "\n".join(await bodies(ann, room, bot))
            assert [whole.count(word) for word in ("one?", "three?", "four?")] == [1, 1, 1]
            assert not [text for text in await bodies(bob, stranger, bot) if "and me?" in text]
