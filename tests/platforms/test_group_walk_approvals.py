"""A tool that needs a yes, asked for in groups: the buttons of each service, and who may press them."""

from pathlib import Path

import pytest

from tests.counterparts.model_server import Call, Say
from tests.platforms.walking import walk

pytestmark = pytest.mark.slow

PAIRS = [("discord", "slack"), ("telegram", "slack")]


@pytest.mark.parametrize("names", PAIRS, ids="+".join)
async def test_X08_only_an_admins_press_runs_it_and_only_once(names: tuple[str, str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with walk(home, *names) as found:
        for place in found.places.values():
            command = f"echo {place.name} >> made.txt"
            found.server.will(Call(("terminal", {"command": command})), Say(f"made on {place.name}"))
            await place.says("xenia", "make it")
            question = await place.told("Approval needed")
            assert set(question.buttons) == {"Approve", "Deny"}
            await place.presses("xenia", question, "Approve")
            await place.says("yuri", "yes", mention=False)
            await place.presses("ann", question, "Approve")
            await place.told(f"made on {place.name}")
        made = next(home.rglob("made.txt"))
        assert made.read_text().split() == list(names)
        assert len([r for r in found.server.requests if "make it" in str(r.body)]) >= 4


async def test_X08_a_question_outlives_a_kill_and_a_press_of_no_ends_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with walk(home, "discord", "slack") as found:
        questions = {}
        for place in found.places.values():
            found.server.will(Call(("terminal", {"command": f"echo {place.name} >> made.txt"})))
            await place.says("xenia", f"make it on {place.name}")
            questions[place.name] = await place.told("Approval needed")
        await found.again()
        found.server.will(Say("left alone"), Say("left alone"))
        for place in found.places.values():
            await place.presses("ann", questions[place.name], "Deny")
            await place.told("left alone")
        assert not list(home.rglob("made.txt"))


async def test_a_background_task_in_a_thread_asks_and_answers_there(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with walk(home, "slack", "discord") as found:
        for number, place in enumerate(found.places.values()):
            found.server.will(Say(f"answer {number}"))
            if place.name == "slack":
                thread = await place.says("xenia", f"question {number}")
            else:
                thread = "talk"
                await place.says("xenia", f"question {number}", thread=thread)
            first = await place.told(f"answer {number}")
            found.server.will(
                Call(("terminal", {"command": f"echo {place.name} >> made.txt"})), Say(f"done {number}")
            )
            await place.says("xenia", "/background make it", thread=thread)
            question = await place.told("Approval needed")
            assert question.thread == first.thread
            assert question.chat == first.chat
            await place.presses("ann", question, "Approve")
            done = await place.told(f"done {number}")
            assert (done.chat, done.thread) == (first.chat, first.thread)
        assert next(home.rglob("made.txt")).read_text().split() == ["slack", "discord"]
