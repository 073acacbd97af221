"""Drafts that become posts, chats that move, buttons and files: what an outbox does with them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from actors.gateway.chunks import Unit
from actors.gateway.edge import EdgeError
from actors.gateway.outbox_actor import LEFT_S
from actors.gateway.parts import OutboxRules, parts_of
from messages import delivery as d
from messages.blocks import FileBlock
from messages.gateway import Button, ChatType, Part, Say
from messages.ids import DeliveryId
from messages.settings import UnknownOutcome
from tests.actors.gateway.post_office import PostOffice, say
from tests.fakes.platform import FakeChats, FakeEdge

FILE = FileBlock(name="plan.pdf", mime="application/pdf", path="/kept/a1.pdf", size=5000)
YES = Button(label="Approve", command="/approve ab12", style="good")
NO = Button(label="Deny", command="/deny ab12", style="bad")
LOBBY = d.Place(chat="lobby")


@asynccontextmanager
async def office(rules: OutboxRules | None = None) -> AsyncIterator[PostOffice]:
    it = PostOffice(rules)
    await it.start()
    try:
        yield it
    finally:
        await it.crash()


async def drafted(it: PostOffice, delivery: str = "d1", receipt: str = "draft-1") -> None:
    posted = d.DraftPosted(delivery_id=DeliveryId(delivery), place=LOBBY, receipt=receipt, at=it.clock.now())
    it.outbox.tell(posted)
    await it.settle()


async def over(it: PostOffice, delivery: str = "d1") -> None:
    it.outbox.tell(d.DraftOver(delivery_id=DeliveryId(delivery), at=it.clock.now()))
    await it.settle()


# ------------------------------------------------------------------ drafts


async def test_the_first_post_is_made_out_of_the_draft_and_the_others_are_new() -> None:
    async with office(OutboxRules(limit=20)) as it:
        await drafted(it)
        await it.say(say("d1", "one two three four five six seven"))
        posts = [posted.post for posted in it.chats.posted]
        assert [post.draft for post in posts] == ["draft-1", None]
        assert it.drafts == {}
        await over(it)
        assert it.edge.shown == []


async def test_a_draft_stands_over_a_crash() -> None:
    async with office() as it:
        await drafted(it)
        await it.restart()
        assert it.drafts[DeliveryId("d1")].receipt == "draft-1"
        await it.say(say("d1", "the answer"))
        assert [posted.post.draft for posted in it.chats.posted] == ["draft-1"]


async def test_a_draft_that_no_answer_comes_of_is_removed_once() -> None:
    async with office() as it:
        await drafted(it)
        await over(it)
        await over(it)
        assert it.edge.shown == [d.DraftRemoved(place=LOBBY, receipt="draft-1")]
        assert it.kinds() == ["draft_stands", "draft_dropped"]


async def test_a_draft_of_an_answer_that_is_silence_is_removed() -> None:
    async with office() as it:
        await drafted(it)
        await it.say(say("d1", "NO_REPLY"))
        assert it.chats.texts() == []
        assert it.edge.shown == [d.DraftRemoved(place=LOBBY, receipt="draft-1")]


async def test_a_draft_that_comes_after_its_answer_is_removed() -> None:
    async with office() as it:
        await it.say(say("d1", "quick"))
        await drafted(it)
        assert it.edge.shown == [d.DraftRemoved(place=LOBBY, receipt="draft-1")]
        assert it.drafts == {}


async def test_a_draft_that_comes_while_its_answer_is_being_posted_is_removed() -> None:
    async with office() as it:
        it.edge.holds = True
        await it.say(say("d1", "quick"))
        await drafted(it)
        it.edge.release()
        await it.settle()
        assert it.chats.texts() == ["quick"]
        assert it.edge.shown == [d.DraftRemoved(place=LOBBY, receipt="draft-1")]


async def test_an_edit_of_which_nobody_knows_is_made_again_on_the_same_draft() -> None:
    async with office(OutboxRules(unknown_outcome="leave")) as it:
        await drafted(it)
        it.chats.will_take_and_be_silent()
        await it.say(say("d1", "the answer"))
        await it.passes(10)
        assert [posted.post.draft for posted in it.chats.posted] == ["draft-1", "draft-1"]
        assert it.delivered() == ["d1"]


# ------------------------------------------------------------------ chats that move


async def test_R12_what_is_owed_goes_to_the_chats_new_id_once() -> None:
    async with office() as it:
        it.chats.will_fail(d.ProblemKind.REFUSED, moved_to="hall")
        it.edge.holds = True
        await it.say(say("d1", "first"), say("d2", "second"))
        it.edge.holds = False
        it.edge.release()
        await it.settle()
        assert [(p.post.place.chat, p.post.body.text) for p in it.chats.posted] == [
            ("hall", "first"),
            ("hall", "second"),
        ]
        assert it.chats.calls == 3
        await it.say(say("d3", "third"))
        assert it.chats.texts("hall") == ["first", "second", "third"]
        assert it.chats.calls == 4, "the old id is not tried again"


async def test_R12_a_moved_chat_stays_moved_after_a_restart() -> None:
    async with office() as it:
        it.chats.will_fail(d.ProblemKind.TARGET_GONE, moved_to="hall")
        await it.say(say("d1", "first"))
        await it.restart()
        await it.say(say("d2", "second"))
        assert it.chats.texts("hall") == ["first", "second"]
        assert it.facts(d.TargetDied) == []


# ------------------------------------------------------------------ buttons and files


def whole(*parts: Part, **rules: object) -> tuple[d.PartText, ...]:
    said: Say = say("d1").model_copy(update={"parts": parts})
    return parts_of(said, OutboxRules(**{"limit": 100, **rules}))  # type: ignore[arg-type]


def test_buttons_stand_below_the_last_post_of_their_text() -> None:
    posts = whole(Part(text="word " * 40, buttons=(YES, NO)), buttons=True)
    assert len(posts) > 1
    assert [len(post.buttons) for post in posts] == [0] * (len(posts) - 1) + [2]


def test_where_there_are_no_buttons_their_commands_are_written() -> None:
    (post,) = whole(Part(text="Run it?", buttons=(YES, NO)))
    assert post.buttons == ()
    assert post.text == "Run it?\n\n(Approve: /approve ab12 · Deny: /deny ab12)"


def test_a_file_goes_with_its_caption() -> None:
    (post,) = whole(Part(text="The plan.", file=FILE), files=True)
    assert (post.text, post.file) == ("The plan.", FILE)


def test_D10_a_caption_that_is_too_long_goes_on_as_a_message_and_all_of_it_arrives() -> None:
    text = "".join(f"word{n} " for n in range(30)).strip()
    first, *rest = whole(Part(text=text, file=FILE), files=True, caption=50, unit=Unit.UTF16)
    assert first.file == FILE
    assert 0 < len(first.text) <= 50
    assert rest
    assert all(post.file is None for post in rest)
    assert " ".join(post.text for post in (first, *rest)).split() == text.split()


def test_D10_a_file_that_is_too_large_is_not_tried_and_people_are_told() -> None:
    (post,) = whole(Part(file=FILE), files=True, file_bytes=4999, limit=300)
    assert post.file is None
    assert "plan.pdf" in post.text
    assert "4,999" in post.text


def test_a_platform_without_files_says_where_the_file_is() -> None:
    (post,) = whole(Part(text="Here.", file=FILE))
    assert post.file is None
    assert "/kept/a1.pdf" in post.text


def test_files_are_not_lost_when_the_text_beside_them_is_cut() -> None:
    posts = whole(Part(text="word " * 400), Part(file=FILE), files=True, most_parts=3)
    assert posts[-1].file == FILE
    assert [post.file_name for post in posts[:-1]][-1] == "answer.md"


def test_a_silent_answer_in_a_group_still_brings_its_file() -> None:
    (post,) = whole(Part(text="NO_REPLY", file=FILE), files=True)
    assert (post.text, post.file) == ("", FILE)
    assert ChatType.GROUP is say("d1").origin.chat_type


# ------------------------------------------------------------------ drafts that would be left behind


LATER = [d.ProblemKind.RATE_LIMITED, d.ProblemKind.TRANSIENT, d.ProblemKind.UNKNOWN]


@pytest.mark.parametrize("kind", LATER)
async def test_a_draft_that_cannot_be_removed_now_is_removed_later(kind: d.ProblemKind) -> None:
    async with office() as it:
        await drafted(it)
        it.edge.show_fails = EdgeError(kind, "not now", retry_after_s=37)
        await over(it)
        assert it.kinds() == ["draft_stands"]
        it.edge.show_fails = None
        await it.passes(36)
        assert it.edge.shown == []
        await it.passes(2)
        assert it.edge.shown == [d.DraftRemoved(place=LOBBY, receipt="draft-1")]
        assert it.kinds() == ["draft_stands", "draft_dropped"]


async def test_a_draft_that_can_never_be_removed_is_left() -> None:
    async with office(OutboxRules(attempts=3)) as it:
        await drafted(it)
        it.edge.show_fails = EdgeError(d.ProblemKind.TRANSIENT, "never")
        await over(it)
        await it.passes(600)
        assert it.kinds() == ["draft_stands", "draft_dropped"]
        assert it.drafts == {}


async def test_a_draft_whose_removal_a_crash_cut_off_is_removed_by_the_next_life() -> None:
    async with office() as it:
        await drafted(it)
        it.edge.show_fails = EdgeError(d.ProblemKind.RATE_LIMITED, "not now", retry_after_s=37)
        await it.say(say("d1", "NO_REPLY"))
        await it.restart()
        await it.settle()
        assert it.edge.shown == [d.DraftRemoved(place=LOBBY, receipt="draft-1")]
        assert it.drafts == {}


async def test_a_draft_of_an_earlier_life_that_no_turn_takes_up_is_removed() -> None:
    async with office() as it:
        await drafted(it)
        await drafted(it, "d2", "draft-2")
        await it.restart()
        await drafted(it, "d2", "draft-2")  # its turn goes on
        await it.passes(LEFT_S + 1)
        assert it.edge.shown == [d.DraftRemoved(place=LOBBY, receipt="draft-1")]
        assert set(it.drafts) == {"d2"}
        await it.say(say("d2", "the answer"))
        assert [posted.post.draft for posted in it.chats.posted] == ["draft-2"]


async def test_a_second_draft_of_the_same_answer_replaces_the_first() -> None:
    async with office() as it:
        await drafted(it)
        await drafted(it, receipt="draft-2")
        assert it.edge.shown == [d.DraftRemoved(place=LOBBY, receipt="draft-1")]
        assert it.drafts[DeliveryId("d1")].receipt == "draft-2"


async def test_a_draft_of_an_answer_that_goes_elsewhere_is_removed() -> None:
    async with office() as it:
        await drafted(it)
        await it.say(say("d1", "the answer", chat="kitchen"))
        assert it.chats.texts("kitchen") == ["the answer"]
        assert it.edge.shown == [d.DraftRemoved(place=LOBBY, receipt="draft-1")]
        assert it.drafts == {}


@pytest.mark.parametrize(("unknown", "posts"), [("leave", 1), ("send_again", 2)])
async def test_D07_a_post_in_place_of_a_lost_draft_goes_by_the_rule_for_unknown_outcomes(
    unknown: UnknownOutcome, posts: int
) -> None:
    async with office(OutboxRules(unknown_outcome=unknown)) as it:
        await drafted(it)
        it.chats.will_take_and_be_silent(times=5, draft_gone=True)
        await it.say(say("d1", "the answer"))
        for _ in range(5):
            await it.passes(60)
        assert it.chats.texts()[:posts] == ["the answer"] * posts
        assert it.chats.texts().count("the answer") == posts


async def test_D12_with_a_history_the_answer_made_of_a_draft_is_looked_for_after_a_crash() -> None:
    async with office(OutboxRules(history=True)) as it:
        await drafted(it)
        it.chats.will_take_and_be_silent()
        await it.say(say("d1", "the answer"))
        await it.passes(10)
        assert it.chats.texts() == ["the answer"]
        assert it.edge.looked == 1
        assert it.delivered() == ["d1"]


async def test_an_edit_on_its_way_does_not_undo_the_answer() -> None:
    class Slow(FakeEdge):
        def __init__(self, chats: FakeChats) -> None:
            super().__init__(chats)
            self.gate = asyncio.Event()

        async def show(self, view: d.EdgeView) -> str | None:
            await self.gate.wait()
            return await super().show(view)

    async with office() as it:
        it.makes = Slow
        await it.restart()
        assert isinstance(it.edge, Slow)
        await drafted(it)
        edit = d.DraftShown(place=LOBBY, text="the ans", receipt="draft-1")
        it.platform.tell(d.ShowView(token=1, view=edit))
        await it.say(say("d1", "the answer"))
        assert it.chats.texts() == []
        it.edge.gate.set()
        await it.settle()
        assert it.chats.texts() == ["the answer"]
        it.platform.tell(d.ShowView(token=2, view=edit))
        await it.settle()
        assert it.edge.shown == [edit]


async def test_A14_a_ban_of_hours_ends_in_one_edit_of_the_draft() -> None:
    async with office() as it:
        await drafted(it)
        it.chats.will_fail(d.ProblemKind.RATE_LIMITED, retry_after_s=13_938)
        await it.say(say("d1", "the answer"), say("d2", "elsewhere", chat="kitchen"))
        await over(it)
        await it.passes(13_937)
        assert it.chats.texts() == ["elsewhere"]
        assert any("13938" in detail for _, detail in it.incidents)
        await it.passes(2)
        assert [(p.post.body.text, p.post.draft) for p in it.chats.posted[1:]] == [("the answer", "draft-1")]
        assert it.edge.shown == []


async def test_a_draft_that_is_told_of_again_is_never_removed_once_it_is_the_answer() -> None:
    async with office(OutboxRules(limit=20)) as it:
        await drafted(it, receipt="post-1")  # what the edit of it will be called, too
        it.edge.holds = True
        await it.say(say("d1", "one two three four five six seven"))
        await drafted(it, receipt="post-1")
        it.edge.release()
        await it.settle()
        await drafted(it, receipt="post-1")
        it.edge.holds = False
        it.edge.release()
        await it.settle()
        await drafted(it, receipt="post-1")
        assert it.delivered() == ["d1"]
        assert it.edge.shown == []
