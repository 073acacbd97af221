"""What the Discord edge posts, shows and finds, over the real wire."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors.gateway.edge import EdgeError
from messages.blocks import FileBlock
from messages.delivery import (
    DraftRemoved,
    DraftShown,
    PartText,
    Place,
    ProblemKind,
    ReactionShown,
    TypingShown,
)
from messages.gateway import Button
from tests.platforms.discord.line import Wire
from tests.platforms.simulators.discord import DiscordSimulator

pytestmark = pytest.mark.slow

K = ProblemKind


async def lobby(sim: DiscordSimulator, wire: Wire) -> tuple[str, str]:
    """Return the ids of a channel and of a message in it."""
    message = await sim.says("lobby", "ann", "a question")
    await wire.desk.until(lambda: any(getattr(m, "message_id", "") == message for m in wire.desk.heard))
    return await sim.id_of("lobby"), message


async def test_a_post_answers_and_pings_nobody(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        chat, asked = await lobby(sim, wire)
        receipt = await wire.edge.say(wire.post(chat, "**Hi** @everyone and @here", reply_to=asked))
        (post,) = await sim.posts("lobby")
    assert (post.id, post.reply_to) == (receipt, asked)
    assert post.text == "**Hi** @\u200beveryone and @\u200bhere"


async def test_a_key_posts_once(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        chat, _ = await lobby(sim, wire)
        post = wire.post(chat, "once")
        first = await wire.edge.say(post)
        async with Wire(sim, tmp_path) as other:  # another life, with nothing in memory
            second = await other.edge.say(post.model_copy(update={"attempt": 2}))
        assert first == second
        assert len(await sim.posts("lobby")) == 1


@pytest.mark.parametrize("how", ["drop", "server_error", "garbage"])
async def test_an_unknown_outcome_is_found_out(sim: DiscordSimulator, tmp_path: Path, how: str) -> None:
    async with Wire(sim, tmp_path) as wire:
        chat, asked = await lobby(sim, wire)
        post = wire.post(chat, "hello", reply_to=asked)
        await sim.misbehaves(how, method="POST", path="/messages", after=True)
        with pytest.raises(EdgeError) as said:
            await wire.edge.say(post)
        assert said.value.problem.kind is K.UNKNOWN
        (standing,) = await sim.posts("lobby")
        assert await wire.edge.find(post) == standing.id
        async with Wire(sim, tmp_path) as other:
            assert await other.edge.find(post) == standing.id
            assert await other.edge.find(post.model_copy(update={"key": "f" * 24, "reply_to": "1"})) is None
            assert await other.edge.find(wire.post(chat, "another")) is None
        assert await wire.edge.say(post.model_copy(update={"attempt": 2})) == standing.id
        assert len(await sim.posts("lobby")) == 1


@pytest.mark.parametrize(
    ("how", "more", "kind"),
    [
        ("rate_limit", {"retry_after": 3.5}, K.RATE_LIMITED),
        ("global_rate_limit", {"retry_after": 2.0}, K.RATE_LIMITED),
        ("cloudflare", {}, K.RATE_LIMITED),
        ("server_error", {"status": 500}, K.UNKNOWN),
        ("server_error", {"status": 503}, K.UNKNOWN),
        ("drop", {}, K.UNKNOWN),
        ("refuses", {"status": 401}, K.NEEDS_HUMAN),
        ("refuses", {"status": 403, "code": 50001}, K.TARGET_GONE),
        ("refuses", {"status": 403, "code": 50013}, K.TARGET_GONE),
        ("refuses", {"status": 403, "code": 50007}, K.TARGET_GONE),
        ("refuses", {"status": 404, "code": 10003}, K.TARGET_GONE),
        ("refuses", {"status": 400, "code": 50006}, K.REFUSED),
        ("refuses", {"status": 400, "code": 200000}, K.REFUSED),
        ("refuses", {"status": 403, "code": 40333}, K.NEEDS_HUMAN),
    ],
)
async def test_failures_are_told_apart(
    sim: DiscordSimulator, tmp_path: Path, how: str, more: dict[str, Any], kind: K
) -> None:
    async with Wire(sim, tmp_path) as wire:
        chat, _ = await lobby(sim, wire)
        await sim.misbehaves(how, method="POST", path="/messages", **more)
        with pytest.raises(EdgeError) as said:
            await wire.edge.say(wire.post(chat, "hello"))
        problem = said.value.problem
        assert problem.kind is kind
        if how == "rate_limit":
            assert (problem.retry_after_s, problem.whole_account) == (3.5, False)
        if kind is K.RATE_LIMITED:
            assert problem.whole_account == (how != "rate_limit")
            assert problem.retry_after_s
            with pytest.raises(EdgeError) as again:  # without asking
                await wire.edge.say(wire.post(chat, "hello"))
            assert again.value.problem.kind is K.RATE_LIMITED
        posts = [r for r in await sim.requests() if r["method"] == "POST" and r["path"].endswith("/messages")]
        assert len(posts) == 1


async def test_a_channels_limit_holds_that_channel_alone(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        chat, _ = await lobby(sim, wire)
        for number in range(5):
            await wire.edge.say(wire.post(chat, f"m{number}"))
        with pytest.raises(EdgeError) as said:
            await wire.edge.say(wire.post(chat, "m5"))
        assert said.value.problem.kind is K.RATE_LIMITED
        assert 0 < (said.value.problem.retry_after_s or 0) <= 5
        assert not said.value.problem.whole_account
        await sim.says("kitchen", "bob", "hi")
        await wire.edge.say(wire.post(await sim.id_of("kitchen"), "elsewhere"))
        assert not any(r["status"] == 429 for r in await sim.requests())


async def test_a_call_that_hangs_does_not_hold_others(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        chat, _ = await lobby(sim, wire)
        await sim.misbehaves("hang", method="POST", path=f"/channels/{chat}/messages")
        hanging = asyncio.create_task(wire.edge.say(wire.post(chat, "hangs")))
        await sim.says("kitchen", "bob", "hi")
        await wire.edge.say(wire.post(await sim.id_of("kitchen"), "elsewhere"))
        assert not hanging.done()
        await sim.releases()
        with pytest.raises(EdgeError):
            await hanging


async def test_a_thread_and_a_person(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        await sim.says("lobby", "ann", "hi", thread="soups")
        await wire.desk.messages()
        chat, thread, ann = [await sim.id_of(name) for name in ("lobby", "soups", "ann")]
        await wire.edge.say(wire.post(chat, "in the thread", thread=thread))
        await wire.edge.say(wire.post(None, "in private", user=ann))
        with pytest.raises(EdgeError) as said:
            await wire.edge.say(wire.post(None, "in private", user="nobody"))
        assert said.value.problem.kind is K.TARGET_GONE
        (in_thread,) = await sim.posts("lobby")
        assert in_thread.thread == "soups"
        assert [post.text for post in await sim.posts("dm-ann")] == ["in private"]


async def test_files_go_out_with_their_caption(sim: DiscordSimulator, tmp_path: Path) -> None:
    file = tmp_path / "data.bin"
    file.write_bytes(b"x" * 2000)
    block = FileBlock(name="../re\u202eport.txt", mime="text/plain", path=str(file), size=2000)
    async with Wire(sim, tmp_path / "files", file_bytes=2500) as wire:
        chat, asked = await lobby(sim, wire)
        body = PartText(text="the report", file=block)
        await wire.edge.say(wire.post(chat, body=body, reply_to=asked))
        await wire.edge.say(wire.post(chat, body=PartText(text="# all of it", file_name="answer.md")))
        captioned, whole = await sim.posts("lobby")
        assert (captioned.text, captioned.files, captioned.reply_to) == ("the report", ("report.txt",), asked)
        assert (whole.text, whole.files) == ("", ("answer.md",))
        file.write_bytes(b"x" * 3000)
        calls = len(await sim.requests())
        with pytest.raises(EdgeError, match=r"has 3 kB; Discord takes 2.5 kB") as said:
            await wire.edge.say(wire.post(chat, body=body))
        assert said.value.problem.kind is K.REFUSED
        file.unlink()
        with pytest.raises(EdgeError, match="not there any more"):
            await wire.edge.say(wire.post(chat, body=body))
        assert len(await sim.requests()) == calls


async def test_a_large_file_goes_out(sim: DiscordSimulator, tmp_path: Path) -> None:
    file = tmp_path / "data.bin"
    file.write_bytes(b"x" * 9_000_000)
    block = FileBlock(name="data.bin", mime="application/zip", path=str(file), size=9_000_000)
    async with Wire(sim, tmp_path / "files") as wire:
        chat, _ = await lobby(sim, wire)
        await wire.edge.say(wire.post(chat, body=PartText(text="", file=block)))
        assert (await sim.posts("lobby"))[0].files == ("data.bin",)


async def test_a_caption_that_is_too_long_goes_ahead(sim: DiscordSimulator, tmp_path: Path) -> None:
    file = tmp_path / "data.txt"
    file.write_text("data")
    block = FileBlock(name="data.txt", mime="text/plain", path=str(file), size=4)
    text = "\n".join(f"line {number} of many" for number in range(300))
    async with Wire(sim, tmp_path / "files") as wire:
        chat, _ = await lobby(sim, wire)
        await wire.edge.say(wire.post(chat, body=PartText(text=text, file=block)))
        posts = await sim.posts("lobby")
    assert "\n".join(post.text.strip() for post in posts) == text
    assert [post.files for post in posts][-1] == ("data.txt",)


async def test_D01_what_cannot_be_a_button_is_said_whole_below_a_text_of_full_length(
    sim: DiscordSimulator, tmp_path: Path
) -> None:
    long = Button(label="Long", command="/do " + "x" * 120)
    text = ("word " * 400).strip()
    async with Wire(sim, tmp_path) as wire:
        chat, _ = await lobby(sim, wire)
        post = wire.post(chat, text, buttons=(Button(label="Short", command="/do it"), long))
        receipt = await wire.edge.say(post)
        async with Wire(sim, tmp_path) as other:
            assert await other.edge.find(post) == receipt
        posts = await sim.posts("lobby")
    assert all(len(each.text) <= 2000 for each in posts)
    assert "".join(each.text for each in posts).split() == f"{text} `{long.command}` Long".split()
    assert [each.buttons for each in posts] == [(), ("Short",)]


async def test_buttons_within_what_discord_takes(sim: DiscordSimulator, tmp_path: Path) -> None:
    buttons = tuple(Button(label=f"B{n}" + "!" * 90, command=f"/do {n}") for n in range(27))
    async with Wire(sim, tmp_path) as wire:
        chat, _ = await lobby(sim, wire)
        await wire.edge.say(wire.post(chat, "choose", buttons=(*buttons, buttons[0])))
        (post,) = await sim.posts("lobby")
    assert len(post.buttons) == 25
    assert all(len(label) == 80 for label in post.buttons)
    assert "`/do 26`" in post.text


async def test_a_reply_that_is_not_possible_is_posted_all_the_same(
    sim: DiscordSimulator, tmp_path: Path
) -> None:
    async with Wire(sim, tmp_path) as wire:
        chat, asked = await lobby(sim, wire)
        await sim.misbehaves("refuses", method="POST", path="/messages", status=403, code=160002)
        await wire.edge.say(wire.post(chat, "hello", reply_to=asked))
        await wire.edge.say(wire.post(chat, "to what is gone", reply_to="42"))
        first, second = await sim.posts("lobby")
    assert (first.text, first.reply_to, second.reply_to) == ("hello", None, None)


# ------------------------------------------------------------------ views


async def test_a_draft_becomes_the_answer(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        chat, asked = await lobby(sim, wire)
        place = Place(chat=chat)
        stop = Button(label="Stop", command="/stop")
        shown = DraftShown(place=place, text="Well", reply_to=asked, buttons=(stop,))
        draft = await wire.edge.show(shown)
        assert draft is not None
        assert (
            await wire.edge.show(DraftShown(place=place, text="Well, so", receipt=draft, buttons=(stop,)))
            is None
        )
        assert (await sim.posts("lobby"))[0].buttons == ("Stop",)
        receipt = await wire.edge.say(wire.post(chat, "Well, so be it.", draft=draft, reply_to=asked))
        (post,) = await sim.posts("lobby")
    assert receipt == draft == post.id
    assert (post.text, post.edits, post.buttons, post.reply_to) == ("Well, so be it.", 2, (), asked)


async def test_a_draft_that_a_killed_life_left_is_found_again(sim: DiscordSimulator, tmp_path: Path) -> None:
    drafts = []
    for _ in range(2):
        async with Wire(sim, tmp_path) as wire:
            chat, asked = await lobby(sim, wire)
            shown = DraftShown(place=Place(chat=chat), text="Well", key="a1" * 12, reply_to=asked)
            drafts.append(await wire.edge.show(shown))
    async with Wire(sim, tmp_path) as wire:
        chat, _ = await lobby(sim, wire)
        assert await wire.edge.say(wire.post(chat, "Well, so be it.", key="a1" * 12)) not in drafts
    assert drafts[0] == drafts[1]
    assert [post.text for post in await sim.posts("lobby")] == ["Well", "Well, so be it."]


async def test_a_draft_that_is_gone_or_cannot_become_it(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        chat, asked = await lobby(sim, wire)
        draft = await wire.edge.show(DraftShown(place=Place(chat=chat), text="Well", reply_to=asked))
        body = PartText(text="all", file_name="answer.md")
        await wire.edge.say(wire.post(chat, body=body, draft=draft))
        (post,) = await sim.posts("lobby")
        assert post.files == ("answer.md",)
        await wire.edge.say(wire.post(chat, "anew", draft="42"))
        assert [post.text for post in await sim.posts("lobby")] == ["", "anew"]
        other = await wire.edge.show(DraftShown(place=Place(chat=chat), text="never mind"))
        assert other is not None
        await wire.edge.show(DraftRemoved(place=Place(chat=chat), receipt=other))
        await wire.edge.show(DraftRemoved(place=Place(chat=chat), receipt=other))
        assert len(await sim.posts("lobby")) == 2
        assert len(wire.desk.heard) == 1  # our own deletions are not handed in


async def test_reactions_take_each_others_place(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        chat, asked = await lobby(sim, wire)

        async def show(sign: str) -> list[str]:
            view = {"place": Place(chat=chat), "message_id": asked, "sign": sign}
            await wire.edge.show(ReactionShown.model_validate(view))
            return [each["emoji"] for each in (await sim.state())["reactions"]]

        assert await show("seen") == ["👀"]
        assert await show("working") == ["⏳"]
        assert await show("done") == ["✅"]
        assert await show("none") == []
        await wire.edge.show(ReactionShown(place=Place(chat=chat), message_id="42", sign="seen"))
        assert not any(r["status"] == 429 for r in await sim.requests())


async def test_what_is_not_allowed_is_passed_over(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        chat, _ = await lobby(sim, wire)
        await wire.edge.show(TypingShown(place=Place(chat=chat)))
        assert (await sim.state())["typing"] == {"lobby": 1}
        await sim.misbehaves("refuses_channel", chat="lobby", status=403, code=50013)
        for _ in range(5):
            await wire.edge.show(TypingShown(place=Place(chat=chat)))
        assert sum(r["path"].endswith("/typing") for r in await sim.requests()) == 2


async def test_while_the_line_is_cut_posts_wait(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        chat, _ = await lobby(sim, wire)
        await sim._process.__aexit__()
        kinds: list[K] = []
        async with asyncio.timeout(20):
            while K.NOT_CONNECTED not in kinds:  # until the cut is noticed
                with pytest.raises(EdgeError) as said:
                    await wire.edge.say(wire.post(chat, "hello"))
                kinds.append(said.value.problem.kind)
    assert set(kinds) <= {K.UNKNOWN, K.TRANSIENT, K.NOT_CONNECTED}
