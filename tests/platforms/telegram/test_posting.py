"""Posts, drafts and views, and what goes wrong with them."""

from pathlib import Path
from typing import Any

import pytest

from actors.clock import WallClock
from messages.delivery import (
    DraftRemoved,
    DraftShown,
    EdgeView,
    Place,
    ProblemKind,
    ReactionShown,
    TypingShown,
)
from messages.gateway import Button, ChatMoved, MessageReceived
from tests.fakes.clock import ManualClock
from tests.platforms.simulators.telegram import TelegramSimulator
from tests.platforms.simulators.telegram_world import TOKEN
from tests.platforms.telegram.stage import Line, a_chat, post, problem_of

pytestmark = pytest.mark.slow


async def test_A13_a_flooded_chat_holds_up_no_other(still: Line, clock: ManualClock) -> None:
    a, b = await a_chat(still, "a"), await a_chat(still, "b")
    await still.sim.misbehaves("flood", retry_after=117, chat="a")
    flooded = await problem_of(still.edge.say(post(a, "to a")))
    assert (flooded.kind, flooded.retry_after_s, flooded.whole_account) == (
        ProblemKind.RATE_LIMITED,
        117,
        False,
    )
    await still.edge.say(post(b, "to b"))
    await still.sim.says("b", "bob", "/stop")
    await still.hears(3)
    await clock.advance(116.5)
    again = await problem_of(still.edge.say(post(a, "to a")))
    assert (again.kind, round(again.retry_after_s, 1)) == (ProblemKind.RATE_LIMITED, 0.5)
    await clock.advance(0.5)
    await still.edge.say(post(a, "to a"))
    assert [p.text for p in await still.sim.posts()] == ["to b", "to a"]
    assert len(await still.requests("sendMessage")) == 3  # none before the wait was over


async def test_A12_nothing_is_asked_of_a_chat_before_its_wait_is_over(
    still: Line, clock: ManualClock
) -> None:
    chat = await a_chat(still)
    receipt = await still.edge.say(post(chat, "first"))
    await still.sim.misbehaves("flood", times=2, retry_after=37)
    views: list[EdgeView] = [
        TypingShown(place=Place(chat=chat)),
        DraftShown(place=Place(chat=chat), text="x", receipt=receipt),
        DraftShown(place=Place(chat=chat), text="x"),
        DraftRemoved(place=Place(chat=chat), receipt=receipt),
        ReactionShown(place=Place(chat=chat), message_id="1", sign="done"),
    ]
    for turn in range(2):
        assert (await problem_of(still.edge.say(post(chat, "second")))).retry_after_s == 37
        asked = len(await still.sim.requests())
        for view in views:
            held = await problem_of(still.edge.show(view))
            assert held.kind is ProblemKind.RATE_LIMITED
        assert [r for r in (await still.sim.requests())[asked:] if r["method"] != "getUpdates"] == [], turn
        await clock.advance(37)
    await still.edge.say(post(chat, "second"))
    assert [p.text for p in await still.sim.posts()] == ["first", "second"]


async def test_A14_an_edit_that_floods_is_raised_with_its_whole_wait(still: Line) -> None:
    chat = await a_chat(still)
    draft = await still.edge.show(DraftShown(place=Place(chat=chat), text="The ans"))
    assert draft is not None
    await still.sim.misbehaves("flood", retry_after=13_938, method="editMessageText")
    shown = await problem_of(
        still.edge.show(DraftShown(place=Place(chat=chat), text="The answer", receipt=draft))
    )
    assert (shown.kind, shown.retry_after_s) == (ProblemKind.RATE_LIMITED, 13_938)


async def test_a_draft_becomes_the_post(line: Line) -> None:
    chat = await a_chat(line)
    place = Place(chat=chat)
    button = Button(label="Stop", command="/stop")
    draft = await line.edge.show(DraftShown(place=place, text="The", reply_to="1", buttons=(button,)))
    assert draft is not None
    await line.edge.show(
        DraftShown(place=place, text="The", receipt=draft, buttons=(button,))
    )  # not modified
    await line.edge.show(DraftShown(place=place, text="The **ans", receipt=draft, buttons=(button,)))
    assert await line.edge.say(post(chat, "The **answer**.", draft=draft)) == draft
    assert await line.edge.say(post(chat, "The **answer**.", draft=draft)) == draft  # said twice, shown once
    (said,) = await line.sim.posts()
    assert (said.text, said.reply_to, said.edits, said.buttons) == ("The answer.", "1", 2, ())


async def test_a_draft_that_is_gone_or_becomes_a_file_is_posted_anew(line: Line) -> None:
    chat = await a_chat(line)
    place = Place(chat=chat)
    gone = await line.edge.show(DraftShown(place=place, text="a"))
    await line.sim.tell("deletes", chat="kitchen", id=gone)
    await line.edge.say(post(chat, "answer", draft=gone))
    other = await line.edge.show(DraftShown(place=place, text="b"))
    await line.edge.say(post(chat, "whole", draft=other, file_name="answer.md", key="f" * 24))
    third = await line.edge.show(DraftShown(place=place, text="c"))
    assert third is not None
    await line.edge.show(DraftRemoved(place=place, receipt=third))
    await line.edge.show(DraftRemoved(place=place, receipt=third))
    assert [(p.text, p.files) for p in await line.sim.posts()] == [("answer", ()), ("", ("answer.md",))]


async def test_reactions_and_typing_are_shown(line: Line) -> None:
    chat = await a_chat(line)
    place = Place(chat=chat)
    await line.edge.show(TypingShown(place=place))
    shown = []
    for sign in ("seen", "working", "done", "failed", "none"):
        await line.edge.show(ReactionShown(place=place, message_id="1", sign=sign))
        shown.append((await line.sim.state())["reactions"].get(f"{chat}/1"))
    assert shown == ["👀", "✍", "👍", "😢", None]
    assert (await line.sim.state())["typing"][chat] == 1
    await line.edge.show(ReactionShown(place=place, message_id="999", sign="seen"))  # gone: nobody misses it


async def test_R12_a_post_to_a_chat_that_moved_says_where_to_and_is_not_tried_again(line: Line) -> None:
    await line.sim.says("old", "ann", "hello", basic=True)
    (heard,) = await line.hears_messages(1)
    old = heard.origin.chat or ""
    new = (await line.sim.tell("migrates", chat="old", new="new", announce=False))["new"]
    problem = await problem_of(line.edge.say(post(old, "answer")))
    assert (problem.kind, problem.moved_to) == (ProblemKind.TARGET_GONE, new)
    assert (await problem_of(line.edge.say(post(old, "answer")))).moved_to == new
    assert (await problem_of(line.edge.show(TypingShown(place=Place(chat=old))))).moved_to == new
    assert len(await line.requests("sendMessage")) == 1
    await line.edge.say(post(new, "answer"))
    moved = (await line.hears(2))[1]
    assert isinstance(moved, ChatMoved)
    assert (moved.old, moved.new) == (old, new)
    assert len(line.heard) == 2
    assert [p.text for p in await line.sim.posts()] == ["answer"]


async def test_R12_a_move_that_is_announced_twice_is_handed_in_once(line: Line) -> None:
    await line.sim.says("old", "ann", "hello", basic=True)
    await line.hears(1)
    moved = await line.sim.tell("migrates", chat="old", new="new")
    await line.sim.says("new", "ann", "still here?")
    heard = await line.hears(3)
    assert isinstance(heard[1], ChatMoved)
    assert (heard[1].old, heard[1].new) == (moved["old"], moved["new"])
    assert isinstance(heard[2], MessageReceived)
    await line.confirmed()


@pytest.mark.parametrize(
    ("how", "more", "kind"),
    [
        ("bad_gateway", {"after": True}, ProblemKind.UNKNOWN),
        ("bad_gateway", {}, ProblemKind.UNKNOWN),
        ("server_error", {}, ProblemKind.UNKNOWN),
        ("drop", {"after": True}, ProblemKind.UNKNOWN),
        ("garbage", {"after": True}, ProblemKind.UNKNOWN),
        ("odd", {"after": True, "result": True}, ProblemKind.UNKNOWN),
        ("odd", {"after": True, "result": {"message_id": "x"}}, ProblemKind.UNKNOWN),
        ("refuses", {"description": "Bad Request: message is too long"}, ProblemKind.REFUSED),
        ("refuses", {"description": "Bad Request: chat not found"}, ProblemKind.TARGET_GONE),
        ("refuses", {"description": "Forbidden: bot was kicked", "status": 403}, ProblemKind.TARGET_GONE),
        ("unauthorized", {}, ProblemKind.NEEDS_HUMAN),
    ],
)
async def test_every_failure_of_a_post_has_its_kind(
    line: Line, how: str, more: dict[str, Any], kind: ProblemKind
) -> None:
    chat = await a_chat(line)
    await line.sim.misbehaves(how, method="sendMessage", **more)
    problem = await problem_of(line.edge.say(post(chat, "answer")))
    assert problem.kind is kind, problem
    assert TOKEN not in problem.detail
    await line.edge.say(post(chat, "after", key="n" * 24))


async def test_an_answer_that_never_comes_leaves_the_outcome_unknown(
    sim: TelegramSimulator, tmp_path: Path
) -> None:
    async with Line(sim, tmp_path, WallClock(), answer_timeout_s=0.3) as line:
        chat = await a_chat(line)
        await sim.misbehaves("hang", method="sendMessage", after=True)
        problem = await problem_of(line.edge.say(post(chat, "answer")))
        assert problem.kind is ProblemKind.UNKNOWN
        draft = await line.edge.show(DraftShown(place=Place(chat=chat), text="a"))
        await sim.misbehaves("hang", method="editMessageText", after=True)
        # An edit can be made twice, so this is not unknown.
        assert (await problem_of(line.edge.say(post(chat, "b", draft=draft)))).kind is ProblemKind.TRANSIENT
        assert await line.edge.say(post(chat, "b", draft=draft)) == draft


async def test_D07_a_post_in_place_of_a_lost_draft_is_told_from_an_edit(
    sim: TelegramSimulator, tmp_path: Path
) -> None:
    async with Line(sim, tmp_path, WallClock(), answer_timeout_s=0.3) as line:
        chat = await a_chat(line)
        draft = await line.edge.show(DraftShown(place=Place(chat=chat), text="a"))
        await sim.tell("deletes", chat="kitchen", id=draft)
        await sim.misbehaves("hang", method="sendMessage", after=True)
        problem = await problem_of(line.edge.say(post(chat, "b", draft=draft)))
        assert (problem.kind, problem.draft_gone) == (ProblemKind.UNKNOWN, True)


async def test_a_text_whose_markup_is_not_understood_goes_out_plain(line: Line) -> None:
    chat = await a_chat(line)
    await line.sim.misbehaves("cant_parse")
    await line.edge.say(post(chat, "**bold** text"))
    assert [p.text for p in await line.sim.posts()] == ["bold text"]


async def test_a_reply_to_what_is_gone_is_posted_all_the_same(line: Line) -> None:
    chat = await a_chat(line)
    await line.edge.say(post(chat, "answer", reply_to="987"))
    assert [(p.text, p.reply_to) for p in await line.sim.posts()] == [("answer", None)]


async def test_the_longest_post_fits(line: Line) -> None:
    chat = await a_chat(line)
    await line.edge.say(post(chat, "👋" * 2048))
    refused = await problem_of(line.edge.say(post(chat, "👋" * 2049, key="l" * 24)))
    assert refused.kind is ProblemKind.REFUSED


async def test_a_place_that_is_no_number_is_gone(line: Line) -> None:
    assert (await problem_of(line.edge.say(post("kitchen", "x")))).kind is ProblemKind.TARGET_GONE
