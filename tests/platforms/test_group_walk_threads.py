"""Who goes on in a thread that we are in needs no mention: on two services at once, and after a kill."""

from pathlib import Path

import pytest

from tests.counterparts.model_server import Say
from tests.platforms.walking import walk

pytestmark = pytest.mark.slow


async def test_a_follow_up_in_a_thread_is_answered_and_its_channel_stays_as_it_was(tmp_path: Path) -> None:
    async with walk(tmp_path / "home", "slack", "discord") as found:
        slack, discord, server = found["slack"], found["discord"], found.server
        for number in range(9):
            server.when(f"question {number}", Say(f"answer {number}"))
        root = await slack.says("xenia", "question 0")
        assert (await slack.told("answer 0")).thread == root
        await slack.says("xenia", "question 1", mention=False, thread=root)
        assert (await slack.told("answer 1")).thread == root
        await slack.says("yuri", "question 2", mention=False, thread=root)
        assert (await slack.told("answer 2")).thread == root
        body = str(server.requests[-1].body)
        assert "question 0" in body, "one conversation for the thread"
        assert "answer 1" in body
        await discord.says("xenia", "question 3", thread="talk")
        await discord.told("answer 3")
        await discord.says("yuri", "question 4", thread="talk", mention=False)
        await discord.told("answer 4")

        await found.again()
        await slack.says("zoe", "a remark", mention=False)
        await slack.says("zoe", "@yuri and you?", mention=False, thread=root)
        await discord.says("zoe", "a remark", mention=False)
        await slack.says("yuri", "question 5", mention=False, thread=root)
        assert (await slack.told("answer 5")).thread == root
        await discord.says("xenia", "question 6", thread="talk", mention=False)
        await discord.told("answer 6")
        assert not found.asked("echo")
        assert [text for text in await slack.texts() + await discord.texts() if "echo" in text] == []


async def test_a_quiet_chat_and_a_switched_off_account_want_a_mention_each_time(tmp_path: Path) -> None:
    async with walk(tmp_path / "home", "slack", "discord", access={"follow_threads": False}) as found:
        for number in (2, 1, 0):  # what was overheard comes along with the next
            found.server.when(f"question {number}", Say(f"answer {number}"))
        for place in found.places.values():
            thread = await place.says("xenia", "question 0") if place.name == "slack" else "talk"
            if place.name == "discord":
                await place.says("xenia", "question 0", thread=thread)
            await place.told("answer 0")
            await place.says("xenia", "question 1", thread=thread, mention=False)
            await place.says("xenia", "question 2", thread=thread)
            await place.told("answer 2")
            assert not [text for text in await place.texts() if "answer 1" in text]
        assert 'said in the chat, not to you, by "xenia"' in str(found.server.requests[-1].body)
