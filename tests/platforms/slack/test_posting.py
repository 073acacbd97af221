"""What we say in Slack, as people see it there, and what becomes of a call that fails."""

from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import pytest

from actors.gateway.edge import EdgeContext, EdgeError
from actors.gateway.platforms.slack import PLATFORM
from actors.gateway.platforms.slack.envelopes import Answerable
from actors.gateway.platforms.slack.hearing import Interactions
from actors.gateway.platforms.slack.options import SlackOptions
from messages.blocks import FileBlock, ImageBlock
from messages.delivery import (
    DraftRemoved,
    DraftShown,
    Place,
    Problem,
    ProblemKind,
    ReactionShown,
    TypingShown,
)
from messages.gateway import Button
from tests.fakes.clock import ManualClock
from tests.platforms.simulators.slack import SlackSimulator, channel_id, dm_id, user_id
from tests.platforms.slack.rig import Rig, eventually, post

pytestmark = pytest.mark.slow

GENERAL = channel_id("general")
STOP = Button(label="Stop", command="/stop", style="bad")


@pytest.fixture
async def sim() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator() as simulator:
        await simulator.tell("channel", chat="general")
        yield simulator


@pytest.fixture
async def rig(sim: SlackSimulator) -> AsyncIterator[Rig]:
    async with Rig(sim) as running:
        yield running


async def problem(rig: Rig, **what: Any) -> EdgeError:
    with pytest.raises(EdgeError) as raised:
        await rig.edge.say(post(what.pop("text", "hello"), what.pop("chat", GENERAL), **what))
    return raised.value


async def test_a_post_is_rendered_and_named(rig: Rig, sim: SlackSimulator) -> None:
    receipt = await rig.edge.say(post("**hi** & [there](https://a.b)", GENERAL))
    (seen,) = await sim.posts("general")
    assert seen.id == receipt
    assert seen.text == "*hi* &amp; <https://a.b|there>"


async def test_a_post_in_a_thread_and_to_a_person(rig: Rig, sim: SlackSimulator) -> None:
    root = await sim.says("general", "Ann", "hello")
    await rig.edge.say(post("hi", GENERAL, thread=root))
    await rig.edge.say(post("psst", None, user=user_id("Ann")))
    in_thread, private = await sim.posts()
    assert in_thread.thread == root
    assert private.text == "psst"
    assert private.chat != "general"


@pytest.mark.parametrize(
    "text",
    [
        "<!channel> <!here> <!everyone> <@U12345> <!subteam^S1> @channel @here",
        "[x](!channel) [y](@U12345) [z](!subteam^S1) <!here|x>",
        "`<!channel>` and\n```\n<!here>\n<@U123>\n```",
        "# <!channel>\n> <!here>\n- <@U1>\n\n|<!here>|a|\n|-|-|\n|<@U1>|b|",
        "https://a.b/<!channel> ![<!here>](<!channel>)",
        "<https://a.b|<!channel>> \\<!here\\>",
    ],
)
async def test_nobody_is_pinged_whatever_the_text(rig: Rig, sim: SlackSimulator, text: str) -> None:
    await rig.edge.say(post(text, GENERAL))
    await rig.edge.say(post(text, GENERAL, buttons=(STOP,)))
    assert (await sim.state())["pings"] == []
    for request in await sim.requests("chat.postMessage"):
        assert request["arguments"]["parse"] == "none"
        assert request["arguments"]["link_names"] is False


@pytest.mark.parametrize(
    "text",
    [
        "x" * 45_000,
        "word " * 9000,
        "\n".join(f"line {n} of many" for n in range(3000)),
        "é😀" * 9000,
        "a < b & c > d " * 3000,
    ],
)
async def test_D09_all_characters_arrive_over_several_messages(
    rig: Rig, sim: SlackSimulator, text: str
) -> None:
    receipt = await rig.edge.say(post(text, GENERAL))
    posts = await sim.posts("general")
    assert posts[0].id == receipt
    assert all(len(each.text) <= 4000 for each in posts)
    joined = "".join(each.text for each in posts)
    assert joined.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == text


async def test_D09_sections_below_buttons_stay_within_their_limit(rig: Rig, sim: SlackSimulator) -> None:
    text = "y" * 3001
    await rig.edge.say(post(text, GENERAL, buttons=(STOP,)))
    (seen,) = await sim.posts("general")
    assert seen.buttons == ("Stop",)
    (request,) = await sim.requests("chat.postMessage")
    sections = [b["text"]["text"] for b in request["arguments"]["blocks"] if b["type"] == "section"]
    assert all(len(section) <= 3000 for section in sections)
    assert "".join(sections) == text
    assert seen.text == text


async def test_D09_a_success_that_was_cut_is_a_failure_and_comes_again_in_pieces(
    rig: Rig, sim: SlackSimulator
) -> None:
    await sim.misbehaves("truncates", method="chat.postMessage", at=100)
    text = "".join(f"{n:04d} " for n in range(600))
    await rig.edge.say(post(text, GENERAL))
    posts = await sim.posts("general")
    assert "".join(each.text for each in posts) == text
    assert len(posts) == 2


@pytest.mark.parametrize("code", ["msg_too_long", "msg_blocks_too_long"])
async def test_D09_too_long_after_all_is_split_and_sent_again(
    rig: Rig, sim: SlackSimulator, code: str
) -> None:
    await sim.misbehaves("error", method="chat.postMessage", code=code, times=3)
    text = "".join(f"{n:04d} " for n in range(790))
    receipt = await rig.edge.say(post(text, GENERAL, key="a" * 24))
    posts = await sim.posts("general")
    assert "".join(each.text for each in posts) == text
    assert posts[0].id == receipt
    assert await rig.edge.find(post(text, GENERAL, key="a" * 24)) is not None


async def test_D09_what_is_too_long_however_short_is_refused(rig: Rig, sim: SlackSimulator) -> None:
    await sim.misbehaves("error", method="chat.postMessage", code="msg_too_long", times=1000)
    assert (await problem(rig, text="z" * 3000)).problem.kind is ProblemKind.REFUSED


async def test_buttons_that_slack_does_not_take_are_said_in_words(rig: Rig, sim: SlackSimulator) -> None:
    await sim.misbehaves("error", method="chat.postMessage", code="invalid_blocks")
    await rig.edge.say(post("Working.", GENERAL, buttons=(STOP,)))
    (seen,) = await sim.posts("general")
    assert seen.buttons == ()
    assert "Stop: `!stop`" in seen.text


async def test_many_buttons_with_long_labels_fit(rig: Rig, sim: SlackSimulator) -> None:
    buttons = tuple(Button(label="L" * 100 + str(n), command=f"/approve {n}") for n in range(40))
    await rig.edge.say(post("Which?", GENERAL, buttons=buttons))
    (seen,) = await sim.posts("general")
    assert len(seen.buttons) == 25


async def test_a_button_that_is_pressed_says_its_command_where_it_stands(
    rig: Rig, sim: SlackSimulator
) -> None:
    root = await sim.says("general", "Ann", "hello")
    receipt = await rig.edge.say(post("Working.", GENERAL, thread=root, buttons=(STOP,)))
    await rig.heard_so_many(1)
    trigger = await sim.presses("general", "Bob", receipt, "Stop")
    pressed = (await rig.messages(2))[1]
    assert (pressed.via, pressed.text, pressed.message_id) == ("button", "/stop", trigger)
    assert pressed.author.id == user_id("Bob")
    assert pressed.origin.thread == root


# ------------------------------------------------------------------ once, and found again


async def test_a_post_of_which_no_word_came_is_found_by_its_key(rig: Rig, sim: SlackSimulator) -> None:
    root = await sim.says("general", "Ann", "hello")
    for thread, key in ((None, "a" * 24), (root, "b" * 24)):
        await sim.misbehaves("posted_then_500", method="chat.postMessage")
        error = await problem(rig, thread=thread, key=key)
        assert error.problem.kind is ProblemKind.UNKNOWN
        found = await rig.edge.find(post("hello", GENERAL, thread=thread, key=key))
        assert found == (await sim.posts("general"))[-1].id
    assert await rig.edge.find(post("hello", GENERAL, key="c" * 24)) is None


async def test_a_long_post_goes_on_where_it_was_broken_off(rig: Rig, sim: SlackSimulator) -> None:
    text = "".join(f"{n:04d} " for n in range(2000))
    await sim.misbehaves("slow", method="chat.postMessage", seconds=0)
    await sim.misbehaves("error", method="chat.postMessage", code="service_unavailable")
    error = await problem(rig, text=text, key="d" * 24)
    assert error.problem.kind is ProblemKind.TRANSIENT
    assert await rig.edge.find(post(text, GENERAL, key="d" * 24)) is None, "half of it is not all"
    receipt = await rig.edge.say(post(text, GENERAL, key="d" * 24, attempt=2))
    posts = await sim.posts("general")
    assert "".join(each.text for each in posts) == text
    assert posts[0].id == receipt
    assert await rig.edge.find(post(text, GENERAL, key="d" * 24)) == receipt


@pytest.mark.parametrize(
    ("how", "more", "kind"),
    [
        ("server_error", {}, ProblemKind.UNKNOWN),
        ("html", {}, ProblemKind.UNKNOWN),
        ("plain", {}, ProblemKind.UNKNOWN),
        ("garbage", {}, ProblemKind.UNKNOWN),
        ("lost", {}, ProblemKind.UNKNOWN),
        ("error", {"code": "fatal_error"}, ProblemKind.UNKNOWN),
        ("error", {"code": "service_unavailable"}, ProblemKind.TRANSIENT),
        ("error", {"code": "channel_not_found"}, ProblemKind.TARGET_GONE),
        ("error", {"code": "is_archived"}, ProblemKind.TARGET_GONE),
        ("error", {"code": "invalid_arguments"}, ProblemKind.REFUSED),
        ("error", {"code": "something_new"}, ProblemKind.REFUSED),
        ("error", {"code": "token_revoked"}, ProblemKind.NEEDS_HUMAN),
        ("error", {"code": "account_inactive"}, ProblemKind.NEEDS_HUMAN),
    ],
)
async def test_failures_have_their_kind(
    rig: Rig, sim: SlackSimulator, how: str, more: dict[str, Any], kind: ProblemKind
) -> None:
    await sim.misbehaves(how, method="chat.postMessage", **more)
    assert (await problem(rig)).problem.kind is kind
    assert len(await sim.requests("chat.postMessage")) == 1, "nothing is tried again here"
    await rig.edge.say(post("works", GENERAL))


async def test_no_answer_in_time_is_unknown(sim: SlackSimulator) -> None:
    async with Rig(sim, timeout_s=1) as rig:
        await sim.misbehaves("silent", method="chat.postMessage")
        error = await problem(rig, key="e" * 24)
        assert error.problem.kind is ProblemKind.UNKNOWN
        assert await rig.edge.find(post("hello", GENERAL, key="e" * 24)) is not None


async def test_a_missing_scope_names_it(rig: Rig, sim: SlackSimulator) -> None:
    await sim.misbehaves("scopes", without=["chat:write"])
    error = await problem(rig)
    assert error.problem.kind is ProblemKind.NEEDS_HUMAN
    assert "chat:write" in error.problem.detail
    assert "api.slack.com/apps" in error.problem.detail


async def test_a_channel_that_we_are_not_in(rig: Rig, sim: SlackSimulator) -> None:
    await sim.tell("channel", chat="private", joined=False)
    error = await problem(rig, chat=channel_id("private"))
    assert error.problem.kind is ProblemKind.TARGET_GONE
    assert "/invite" in error.problem.detail
    assert (await problem(rig, chat="CNOWHERE")).problem.kind is ProblemKind.TARGET_GONE


async def test_a_rate_limit_is_told_and_holds_no_other_channel(rig: Rig, sim: SlackSimulator) -> None:
    await sim.tell("channel", chat="other")
    await sim.misbehaves("rate_limited", method="chat.postMessage", channel=GENERAL, retry_after=7, times=5)
    error = await problem(rig)
    assert error.problem.kind is ProblemKind.RATE_LIMITED
    assert error.problem.retry_after_s == 7
    assert not error.problem.whole_account
    await rig.edge.say(post("hello", channel_id("other")))


async def test_the_real_limits_hold_one_channel_and_not_the_others(rig: Rig, sim: SlackSimulator) -> None:
    await sim.misbehaves("limits")
    await sim.tell("channel", chat="other")
    kinds = []
    for number in range(6):
        try:
            await rig.edge.say(post("hello", GENERAL, key=f"{number:024d}"))
        except EdgeError as error:
            kinds.append((error.problem.kind, error.problem.whole_account))
    assert kinds
    assert set(kinds) == {(ProblemKind.RATE_LIMITED, False)}
    await rig.edge.say(post("hello", channel_id("other")))


async def test_a_method_whose_limit_is_used_up_is_left_alone_until_then(sim: SlackSimulator) -> None:
    clock = ManualClock()
    async with Rig(sim, clock=clock) as rig:
        ts = await rig.edge.say(post("hello", GENERAL))
        await sim.misbehaves("rate_limited", method="chat.update", retry_after=30)
        view = DraftShown(place=Place(chat=GENERAL), text="more", receipt=ts)
        for _ in range(3):
            with pytest.raises(EdgeError) as raised:
                await rig.edge.show(view)
            assert raised.value.problem.kind is ProblemKind.RATE_LIMITED
        assert len(await sim.requests("chat.update")) == 1
        await clock.advance(31)
        await rig.edge.show(view)
        assert len(await sim.requests("chat.update")) == 2


# ------------------------------------------------------------------ drafts, signs, typing


async def test_a_draft_grows_and_becomes_the_post(rig: Rig, sim: SlackSimulator) -> None:
    place = Place(chat=GENERAL)
    draft = await rig.edge.show(DraftShown(place=place, text="The ans", buttons=(STOP,)))
    assert draft is not None
    await rig.edge.show(DraftShown(place=place, text="The answer", receipt=draft, buttons=(STOP,)))
    (seen,) = await sim.posts("general")
    assert (seen.text, seen.buttons) == ("The answer", ("Stop",))
    receipt = await rig.edge.say(post("The answer is 42.", GENERAL, draft=draft, key="f" * 24))
    (seen,) = await sim.posts("general")
    assert (seen.id, seen.text, seen.buttons) == (receipt, "The answer is 42.", ())
    assert await rig.edge.find(post("The answer is 42.", GENERAL, key="f" * 24)) == receipt


async def test_a_draft_that_is_gone_is_no_hindrance(rig: Rig, sim: SlackSimulator) -> None:
    place = Place(chat=GENERAL)
    draft = await rig.edge.show(DraftShown(place=place, text="The ans"))
    assert draft is not None
    await rig.edge.show(DraftRemoved(place=place, receipt=draft))
    await rig.edge.show(DraftRemoved(place=place, receipt=draft))
    assert await sim.posts("general") == []
    await rig.edge.say(post("The answer", GENERAL, draft=draft))
    (seen,) = await sim.posts("general")
    assert seen.text == "The answer"


async def test_an_answer_does_not_wait_for_the_limit_of_edits(sim: SlackSimulator) -> None:
    clock = ManualClock()
    async with Rig(sim, clock=clock) as rig:
        place = Place(chat=GENERAL)
        draft = await rig.edge.show(DraftShown(place=place, text="The ans"))
        await sim.misbehaves("rate_limited", method="chat.update", retry_after=30)
        await sim.misbehaves("rate_limited", method="chat.delete", retry_after=30)
        receipt = await rig.edge.say(post("The answer", GENERAL, draft=draft))
        assert [each.text for each in await sim.posts("general")] == ["The ans", "The answer"]
        await clock.advance(31)
        await eventually(lambda: _only(sim, receipt))


async def test_a_draft_that_became_the_answer_at_the_second_try_is_not_tidied_away(
    sim: SlackSimulator,
) -> None:
    clock = ManualClock()
    async with Rig(sim, clock=clock) as rig:
        draft = await rig.edge.show(DraftShown(place=Place(chat=GENERAL), text="The ans"))
        await sim.misbehaves("rate_limited", method="chat.update", retry_after=30)
        await sim.misbehaves("rate_limited", method="chat.delete", retry_after=30)
        await sim.misbehaves("rate_limited", method="chat.postMessage", retry_after=1)
        problem = await problem_of(rig.edge.say(post("The answer", GENERAL, draft=draft)))
        assert problem.kind is ProblemKind.RATE_LIMITED
        await clock.advance(31)
        assert await rig.edge.say(post("The answer", GENERAL, draft=draft, attempt=2)) == draft
        await clock.advance(60)
        assert [each.text for each in await sim.posts("general")] == ["The answer"]


async def test_an_answer_that_was_posted_in_place_of_its_draft_is_found_and_the_draft_goes(
    rig: Rig, sim: SlackSimulator
) -> None:
    draft = await rig.edge.show(DraftShown(place=Place(chat=GENERAL), text="The ans"))
    await sim.misbehaves("rate_limited", method="chat.update", retry_after=1)
    await sim.misbehaves("posted_then_500", method="chat.postMessage")
    problem = await problem_of(rig.edge.say(post("The answer", GENERAL, draft=draft)))
    assert problem.kind is ProblemKind.UNKNOWN
    receipt = await rig.edge.find(post("The answer", GENERAL, draft=draft))
    assert [(each.id, each.text) for each in await sim.posts("general")] == [(receipt, "The answer")]


async def test_a_draft_that_cannot_be_removed_now_is_said(rig: Rig, sim: SlackSimulator) -> None:
    draft = await rig.edge.show(DraftShown(place=Place(chat=GENERAL), text="The ans"))
    assert draft is not None
    await sim.misbehaves("rate_limited", method="chat.delete", retry_after=7)
    problem = await problem_of(rig.edge.show(DraftRemoved(place=Place(chat=GENERAL), receipt=draft)))
    assert (problem.kind, problem.retry_after_s) == (ProblemKind.RATE_LIMITED, 7)


async def problem_of(call: Awaitable[str | None]) -> Problem:
    with pytest.raises(EdgeError) as raised:
        await call
    return raised.value.problem


async def _only(sim: SlackSimulator, receipt: str) -> bool:
    return [each.id for each in await sim.posts("general")] == [receipt]


async def test_a_sign_that_could_not_be_removed_goes_later(sim: SlackSimulator) -> None:
    ts, place, clock = await sim.says("general", "Ann", "hello"), Place(chat=GENERAL), ManualClock()
    async with Rig(sim, clock=clock) as rig:
        await rig.edge.show(ReactionShown(place=place, message_id=ts, sign="working"))
        await sim.misbehaves("rate_limited", method="reactions.remove", retry_after=20)
        await rig.edge.show(ReactionShown(place=place, message_id=ts, sign="done"))
        assert await _signs(sim) == ["hourglass_flowing_sand", "white_check_mark"]
        await clock.advance(21)
        await eventually(lambda: _has_signs(sim, ["white_check_mark"]))


async def _signs(sim: SlackSimulator) -> list[str]:
    (message,) = await sim.tell("messages", chat="general")
    return list(message["signs"])


async def _has_signs(sim: SlackSimulator, wanted: list[str]) -> bool:
    return await _signs(sim) == wanted


async def test_signs_take_each_others_place(rig: Rig, sim: SlackSimulator) -> None:
    ts, place = await sim.says("general", "Ann", "hello"), Place(chat=GENERAL, thread="1.1")

    async def signs() -> list[str]:
        (message,) = await sim.tell("messages", chat="general")
        return list(message["signs"])

    for sign, shown in (
        ("seen", ["eyes"]),
        ("seen", ["eyes"]),
        ("working", ["hourglass_flowing_sand"]),
        ("done", ["white_check_mark"]),
        ("failed", ["x"]),
        ("none", []),
    ):
        await rig.edge.show(ReactionShown(place=place, message_id=ts, sign=sign))  # type: ignore[arg-type]
        assert await signs() == shown
    await rig.edge.show(ReactionShown(place=place, message_id="trigger.1", sign="seen"))


async def test_a_sign_of_an_earlier_life_does_not_stay(sim: SlackSimulator) -> None:
    ts, place = await sim.says("general", "Ann", "hello"), Place(chat=GENERAL)
    async with Rig(sim) as rig:
        await rig.edge.show(ReactionShown(place=place, message_id=ts, sign="working"))
    async with Rig(sim) as rig:
        await rig.edge.show(ReactionShown(place=place, message_id=ts, sign="done"))
    (message,) = await sim.tell("messages", chat="general")
    assert message["signs"] == ["white_check_mark"]


async def test_typing_is_shown_in_an_assistants_threads_only(rig: Rig, sim: SlackSimulator) -> None:
    first = await sim.says("ann", "Ann", "hello", dm=True)
    await rig.edge.show(TypingShown(place=Place(chat=GENERAL, thread="1.1")))
    assert (await sim.state())["statuses"] == []
    await rig.edge.show(TypingShown(place=Place(chat=dm_id("ann"), thread=first)))
    assert len((await sim.state())["statuses"]) == 1
    await sim.misbehaves("scopes", without=["assistant:write"])
    for _ in range(3):
        await rig.edge.show(TypingShown(place=Place(chat=dm_id("ann"), thread=first)))
    assert len(await sim.requests("assistant.threads.setStatus")) == 2


# ------------------------------------------------------------------ files


async def test_a_file_goes_out_with_its_caption_and_is_found_again(
    rig: Rig, sim: SlackSimulator, tmp_path: Path
) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"r" * 300_000)
    file = FileBlock(name="ré/port.pdf", mime="application/pdf", path=str(path), size=300_000)
    root = await sim.says("general", "Ann", "hello")
    said = post("**Here**", GENERAL, thread=root, file=file, key="a1" * 12)
    assert await rig.edge.find(said) is None
    receipt = await rig.edge.say(said)
    (seen,) = await sim.posts("general")
    assert (seen.text, seen.thread) == ("*Here*", root)
    stored = (await sim.state())["files"]
    assert [(f["title"], f["size"], f["id"]) for f in stored] == [("port.pdf", 300_000, receipt)]
    assert await rig.edge.find(said) == receipt


async def test_a_text_goes_out_as_a_file(rig: Rig, sim: SlackSimulator) -> None:
    receipt = await rig.edge.say(post("# All of it", GENERAL, file_name="answer.md"))
    (seen,) = await sim.posts("general")
    assert seen.text == ""
    assert (await sim.tell("content", id=receipt))["text"] == "# All of it"


async def test_a_long_caption_arrives_whole(rig: Rig, sim: SlackSimulator, tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    path.write_bytes(b"png")
    text = "".join(f"{n:04d} " for n in range(1500))
    image = ImageBlock(mime="image/png", path=str(path), size=3)
    await rig.edge.say(post(text, GENERAL, file=image, buttons=(STOP,)))
    posts = await sim.posts("general")
    assert "".join(each.text for each in posts) == text
    assert posts[-1].buttons == ("Stop",)


async def test_files_that_cannot_go_are_refused_before_any_call(
    rig: Rig, sim: SlackSimulator, tmp_path: Path
) -> None:
    huge = tmp_path / "huge.bin"
    with huge.open("wb") as sparse:
        sparse.truncate(1_200_000_000)
    for name, words in (("huge.bin", ("1.2 GB", "1 GB")), ("nothing.bin", ("cannot be read",))):
        file = FileBlock(name=name, mime="", path=str(tmp_path / name), size=1)
        error = await problem(rig, file=file)
        assert error.problem.kind is ProblemKind.REFUSED
        assert all(word in error.problem.detail for word in words)
    assert not await sim.requests("files.getUploadURLExternal")


async def test_a_missing_scope_for_files_does_not_hold_texts(
    rig: Rig, sim: SlackSimulator, tmp_path: Path
) -> None:
    await sim.misbehaves("scopes", without=["files:write"])
    error = await problem(rig, file_name="a.md")
    assert error.problem.kind is ProblemKind.REFUSED
    assert "files:write" in error.problem.detail


# ------------------------------------------------------------------ native commands


async def test_what_a_command_answers_is_seen_by_who_asked(rig: Rig, sim: SlackSimulator) -> None:
    trigger = await sim.commands("general", "Ann", "/callboard", "whoami")
    await rig.heard_so_many(1)
    await rig.edge.say(post("You are Ann.", GENERAL, reply_to=trigger))
    assert await sim.posts("general") == []
    (private,) = (await sim.state())["ephemerals"]
    assert (private["text"], private["user"]) == ("You are Ann.", user_id("Ann"))


async def test_what_the_model_answers_to_a_command_is_for_everybody(rig: Rig, sim: SlackSimulator) -> None:
    trigger = await sim.commands("general", "Ann", "/callboard", "retry")
    await rig.heard_so_many(1)
    await rig.edge.say(post("Once more: 42.", GENERAL, reply_to=trigger))
    (seen,) = await sim.posts("general")
    assert seen.text == "Once more: 42."


async def test_a_command_is_answered_in_a_channel_that_we_are_not_in(rig: Rig, sim: SlackSimulator) -> None:
    await sim.tell("channel", chat="private", joined=False)
    trigger = await sim.commands("private", "Ann", "/callboard", "retry")
    await rig.heard_so_many(1)
    await rig.edge.say(post("Hello.", channel_id("private"), reply_to=trigger))
    (seen,) = await sim.posts("private")
    assert seen.text == "Hello."


async def test_an_interaction_that_is_used_up_is_answered_by_a_post(rig: Rig, sim: SlackSimulator) -> None:
    trigger = await sim.commands("general", "Ann", "/callboard", "usage")
    await rig.heard_so_many(1)
    for number in range(7):
        await rig.edge.say(post(f"n{number}", GENERAL, reply_to=trigger))
    assert len((await sim.state())["ephemerals"]) == 5
    assert len(await sim.posts("general")) == 2


async def test_an_interaction_that_is_over_is_answered_by_a_post() -> None:
    clock = ManualClock()
    interactions = Interactions(clock)
    interactions.add(Answerable("t1", "https://hooks.slack.com/x", "usage", direct=False))
    assert interactions.get("t1") is not None
    await clock.advance(1800)
    assert interactions.get("t1") is None
    for number in range(10_000):
        interactions.add(Answerable(f"t{number}", "https://hooks.slack.com/x", "usage", direct=False))
    assert interactions.get("t5000") is None
    assert interactions.get("t9999") is not None


async def test_without_a_connection(sim: SlackSimulator) -> None:
    rig = Rig(sim)
    assert (await problem(rig)).problem.kind is ProblemKind.NOT_CONNECTED
    options = SlackOptions.model_validate(sim.options())
    assert PLATFORM.standalone is not None
    await PLATFORM.standalone(options, post("from a job", GENERAL))
    (seen,) = await sim.posts("general")
    assert seen.text == "from a job"
    rig._folder.cleanup()


async def test_examine_names_what_is_missing(sim: SlackSimulator) -> None:
    options = SlackOptions.model_validate(sim.options())
    context = EdgeContext("slack", "main", ManualClock())
    assert PLATFORM.examine is not None
    assert all(finding.ok for finding in await PLATFORM.examine(options, context))
    await sim.misbehaves("scopes", without=["files:read", "im:history"])
    bad = [finding for finding in await PLATFORM.examine(options, context) if not finding.ok]
    assert len(bad) == 1
    assert "files:read" in bad[0].what
    assert bad[0].remedy
    await sim.misbehaves("app_token", code="invalid_auth")
    bad = [finding for finding in await PLATFORM.examine(options, context) if not finding.ok]
    assert len(bad) == 2
    await sim.misbehaves("token", code="token_revoked")
    (only,) = await PLATFORM.examine(options, context)
    assert not only.ok
    assert "xoxb-" not in only.remedy


async def test_names_and_counts_of_what_was_passed_over(rig: Rig, sim: SlackSimulator) -> None:
    await sim.tell("event", event={"type": "reaction_added", "user": "U1"})
    await sim.tell("event", event={"type": "message", "text": 7, "channel": {"id": 1}})
    assert rig.edge.connection is not None
    hearing = rig.edge.connection.hearing
    assert hearing is not None

    async def counted() -> bool:
        return sum(hearing.refused.values()) == 2

    await eventually(counted)
