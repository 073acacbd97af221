"""What people say, handed in over real sockets."""

import asyncio
import json
from pathlib import Path

import pytest

from actors.clock import WallClock
from actors.gateway.edge import EdgeError
from messages.delivery import (
    Place,
    ProblemKind,
    ReactionShown,
    TypingShown,
)
from messages.gateway import Acceptance, Button, MessageEdited, Receipt
from messages.ids import MessageId
from tests.platforms.fuzz import mutated
from tests.platforms.simulators.telegram import TelegramSimulator
from tests.platforms.telegram.shapes import SHAPES
from tests.platforms.telegram.stage import (
    Line,
    counted,
    post,
    problem_of,
    until,
)

pytestmark = pytest.mark.slow


async def test_a_conversation_in_a_group(line: Line) -> None:
    first = await line.sim.says("kitchen", "ann", "what is for dinner?")
    (heard,) = await line.hears_messages(1)
    assert (heard.text, heard.mentions_us, heard.message_id) == ("what is for dinner?", True, first)
    assert heard.origin.chat is not None
    receipt = await line.edge.say(post(heard.origin.chat, "**Soup**, `hot`", reply_to=first))
    (said,) = await line.sim.posts("kitchen")
    assert (said.text, said.reply_to, said.id) == ("Soup, hot", first, receipt)
    await line.sim.says("kitchen", "bob", "with bread?", mention=False, reply_to=receipt)
    quote = (await line.hears_messages(2))[1].quote
    assert quote is not None
    assert (quote.ours, quote.text) == (True, "Soup, hot")
    await line.confirmed()


async def test_nothing_is_confirmed_before_it_is_durable(line: Line) -> None:
    line.hold = asyncio.Event()
    await line.sim.says("kitchen", "ann", "one")
    await line.hears(1)
    await line.sim.says("garden", "bob", "two")
    await line.hears(2)  # nobody waits for the other chat
    assert (await line.sim.state())["pending"] == 2
    line.hold.set()
    await line.confirmed()
    assert len(line.heard) == 2


async def test_what_was_not_taken_ends_the_connection_and_comes_again(line: Line) -> None:
    line.failing = [EdgeError(ProblemKind.TRANSIENT, "a message was not taken in time")]
    await line.sim.says("kitchen", "ann", "one")
    with pytest.raises(EdgeError):
        await line.running
    assert (await line.sim.state())["pending"] == 1
    await line.start()
    assert [m.text for m in await line.hears_messages(1)] == ["one"]
    await line.confirmed()


async def test_what_was_given_up_while_it_was_handed_in_comes_again(line: Line) -> None:
    line.giving_up = True
    await line.sim.says("kitchen", "ann", "one")
    with pytest.raises(EdgeError):
        await line.running
    assert (await line.sim.state())["pending"] == 1


async def test_what_comes_after_a_message_that_was_not_taken_waits_for_it(
    sim: TelegramSimulator, tmp_path: Path
) -> None:
    for text in ("one", "two"):
        await sim.says("kitchen", "ann", text)
    line = Line(sim, tmp_path, WallClock())
    line.failing = [EdgeError(ProblemKind.TRANSIENT, "not taken in time")]
    await line.start()
    with pytest.raises(EdgeError):
        await line.running
    await line.start()
    assert [m.text for m in (await line.hears_messages(2))[-2:]] == ["one", "two"]
    await line.stop()


async def test_A10_what_was_said_while_we_were_away_is_handed_in_oldest_first(
    sim: TelegramSimulator, tmp_path: Path
) -> None:
    for number in range(3):
        await sim.says("kitchen", "ann", f"message {number}", date=1_767_268_800 + number)
    await sim.says("kitchen", "ann", "/restart", date=1_767_268_803)
    async with Line(sim, tmp_path, WallClock()) as line:
        heard = await line.hears_messages(4)
        assert [m.text for m in heard] == ["message 0", "message 1", "message 2", "/restart"]
        assert [m.sent_at.timestamp() for m in heard if m.sent_at] == [1_767_268_800 + n for n in range(4)]
        await line.confirmed()
        assert not any(r["fields"].get("drop_pending_updates") == "true" for r in await sim.requests())


async def test_A10_hundreds_that_waited_come_in_the_order_of_eacha_chat(
    sim: TelegramSimulator, tmp_path: Path
) -> None:
    for number in range(230):
        await sim.says(f"room {number % 3}", "ann", f"{number}")
    async with Line(sim, tmp_path, WallClock()) as line:
        heard = await line.hears_messages(230)
        for room in range(3):
            texts = [int(m.text) for m in heard if m.surroundings.chat == f"room {room}"]
            assert texts == list(range(room, 230, 3))
        await line.confirmed()


async def test_R07_an_answer_goes_into_the_topic_and_to_the_general_one_without_a_number(line: Line) -> None:
    await line.sim.tell("topic", chat="forum", thread=77, name="Soups")
    await line.sim.says("forum", "ann", "hot?", thread="77", forum=True)
    (heard,) = await line.hears_messages(1)
    chat = heard.origin.chat or ""
    assert heard.origin.thread == "77"
    await line.edge.say(post(chat, "yes", thread="77", reply_to=heard.message_id))
    await line.edge.say(post(chat, "all", thread="1", key="g" * 24))
    await line.edge.show(TypingShown(place=Place(chat=chat, thread="77")))
    assert [(p.text, p.thread) for p in await line.sim.posts("forum")] == [("yes", "77"), ("all", None)]
    gone = await problem_of(line.edge.say(post(chat, "x", thread="999", key="h" * 24)))
    assert gone.kind is ProblemKind.TARGET_GONE


async def test_R15_an_edit_is_heard_once_and_only_when_the_text_is_another(line: Line) -> None:
    first = await line.sim.says("kitchen", "ann", "one", mention=False)
    await line.hears(1)
    await line.sim.tell("edits", chat="kitchen", id=first, text="one")  # a preview of a link was added
    await line.sim.tell("edits", chat="kitchen", id=first, text="two")
    await line.sim.tell("edits", chat="kitchen", id=first, text="two")
    await line.sim.says("kitchen", "ann", "three", mention=False)
    heard = await line.hears(3)
    assert isinstance(heard[1], MessageEdited)
    assert (heard[1].text, heard[1].message_id) == ("two", first)
    await line.confirmed()
    assert len(line.heard) == 3


async def test_an_odd_update_keeps_nothing_from_being_heard(line: Line) -> None:
    await line.sim.says("kitchen", "ann", "before")
    await line.sim.tell("update", update={"message": {"chat": [], "text": {"a": 1}}})
    await line.sim.tell("update", update={"message": 5})
    await line.sim.tell("update", update={"unheard_of": {}})
    await line.sim.says("kitchen", "ann", "after")
    assert [m.text for m in await line.hears_messages(2)] == ["before", "after"]
    await line.confirmed()


async def test_a_refused_message_is_answered_with_the_reason(line: Line) -> None:
    line.receipts["1"] = Receipt(
        message_id=MessageId("1"),
        session_key=None,
        acceptance=Acceptance.REFUSED,
        why="Busy, please try again.",
    )
    await line.sim.says("kitchen", "ann", "hello")
    posts = await until(lambda: line.sim.posts("kitchen"))
    assert [(p.text, p.reply_to) for p in posts] == [("Busy, please try again.", "1")]


async def test_a_button_is_acknowledged_at_once_and_its_answer_stands_below_it(line: Line) -> None:
    await line.sim.says("kitchen", "ann", "do it")
    (heard,) = await line.hears_messages(1)
    chat = heard.origin.chat or ""
    button = Button(label="Stop", command="/stop")
    receipt = await line.edge.say(post(chat, "working", buttons=(button,)))
    assert (await line.sim.posts("kitchen"))[0].buttons == ("Stop",)
    line.hold = asyncio.Event()
    pressed = (await line.sim.tell("presses", chat="kitchen", id=receipt, user="bob", data="/stop"))["id"]
    press = (await line.hears_messages(2))[1]
    assert (press.via, press.text, press.message_id, press.author.name) == ("button", "/stop", pressed, "bob")
    await until(lambda: line.requests("answerCallbackQuery"))  # while it is not durable yet
    line.hold.set()
    await line.edge.say(post(chat, "stopped", reply_to=pressed, key="p" * 24))
    assert [p.reply_to for p in await line.sim.posts("kitchen")] == [None, receipt]
    await line.edge.show(ReactionShown(place=Place(chat=chat), message_id=pressed, sign="seen"))
    assert await line.requests("setMessageReaction") == []


async def test_the_menu_of_commands_is_set_when_it_is_another(line: Line) -> None:
    await until(lambda: line.requests("setMyCommands"))
    assert [c["command"] for c in (await line.sim.state())["commands"]] == ["help", "stop", "status", "new"]
    await line.stop()
    await line.start()
    await until(lambda: counted(line, "getMyCommands", 2))
    await line.sim.says("kitchen", "ann", "hello")
    await line.hears(1)
    assert len(await line.requests("setMyCommands")) == 1


async def test_hundreds_of_odd_updates_stop_nothing_and_leave_nothing(
    sim: TelegramSimulator, tmp_path: Path
) -> None:
    for number, payload in enumerate(mutated(SHAPES, 11, 400)):
        update = {**payload, "update_id": 600_000_000 + number} if isinstance(payload, dict) else {"odd": 1}
        try:
            said = json.dumps(update, allow_nan=False)
        except (ValueError, RecursionError, TypeError):
            continue  # what JSON cannot say cannot come
        if len(said) < 200_000:
            await sim.tell("update", update=json.loads(said))
    await sim.says("kitchen", "ann", "still there?")
    async with Line(sim, tmp_path, WallClock(), fetch_timeout_s=2) as line:
        await until(lambda: any(getattr(m, "text", "") == "still there?" for m in line.heard))
        await line.confirmed()
        assert not line.running.done()
        assert line.troubles == []
