"""Drafts that become posts, chats that move, buttons and files: what an outbox does with them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from actors.gateway.chunks import Unit
from actors.gateway.parts import OutboxRules, parts_of
from messages import delivery as d
from messages.blocks import FileBlock
from messages.gateway import Button, ChatType, Part, Say
from messages.ids import DeliveryId
from tests.actors.gateway.post_office import PostOffice, say

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
