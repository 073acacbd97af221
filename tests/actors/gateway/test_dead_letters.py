"""Replies that were given up: an operator sees them, and has them delivered, or not, once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from actors.console.port import DeadLetterError
from actors.gateway.dead_letters import PATIENCE_S
from actors.gateway.edge import EdgeError
from actors.gateway.outbox import decide, key_of_part
from actors.gateway.outbox_state import Outbox, fold
from actors.gateway.parts import OutboxRules
from messages import delivery as d
from messages.gateway import Say
from messages.ids import DeliveryId, SessionKey
from store.codec import CODEC
from store.dead_letters import open_letters, owed_again
from tests.actors.gateway.letter_office import SECRET, LetterOffice
from tests.actors.gateway.post_office import STREAM, Fuse, say
from tests.fakes.platform import FakeEdge

SMALL = OutboxRules(limit=20)


class Blindable(FakeEdge):
    """A platform whose history cannot always be searched."""

    blind = False

    async def find(self, post: d.Post) -> str | None:
        if self.blind:
            raise EdgeError(d.ProblemKind.TRANSIENT, "no history now")
        return await super().find(post)


@asynccontextmanager
async def office(rules: OutboxRules | None = None) -> AsyncIterator[LetterOffice]:
    it = LetterOffice(rules)
    await it.start()
    try:
        yield it
    finally:
        await it.crash()


async def refused(it: LetterOffice, *says: Say) -> None:
    """Have replies refused for good, and nothing said about it in the chat."""
    for each in says:
        it.chats.will_fail(d.ProblemKind.REFUSED, times=2)
        await it.say(each)


async def test_a_reply_that_is_refused_for_good_waits_for_a_decision_and_is_delivered_when_it_is_healed() -> (
    None
):
    async with office() as it:
        it.chats.will_fail(d.ProblemKind.REFUSED)
        await it.say(say("d1", f"the answer, {SECRET}"))
        letter = await it.letter()
        assert (letter.kind, letter.place, letter.session_key) == ("reply", "fake:lobby", "session of lobby")
        assert letter.text.startswith("the answer, ")
        assert SECRET not in letter.text
        assert "refused: told to fail" in letter.error
        assert (letter.delivery_id, letter.parts, letter.posted, letter.obstacle) == ("d1", 1, 0, "")
        assert (it.letters_open, await open_letters(it.journal.select)) == (1, 1)
        retried = await it.box.retry(letter.id, by="ops")
        await it.settle()
        assert (retried.state, retried.closed_by) == ("retried", "ops")
        assert it.chats.texts()[-1] == f"the answer, {SECRET}", "as it was said"
        assert it.chats.posted[-1].post.reply_to == "m1"
        assert it.delivered() == [retried.retried_as]
        assert await it.open_letters() == []
        assert (it.letters_open, await open_letters(it.journal.select)) == (0, 0)


async def stuck_after_one_part(it: LetterOffice) -> None:
    """Have the first of three parts taken, and the second refused; then the chat is told."""
    it.edge.holds = True
    await it.say(say("d1", "aaaa aaaa aaaa aaaa bbbb bbbb bbbb bbbb cccc cccc cccc cccc"))
    (_, first), *_ = it.edge.held
    it.edge.held.clear()
    first.set_result(None)
    await it.settle()
    it.chats.will_fail(d.ProblemKind.REFUSED)
    it.edge.holds = False
    it.edge.release()
    await it.settle()


async def test_only_what_is_missing_is_posted_by_a_retry_and_by_a_retry_of_that() -> None:
    async with office(SMALL) as it:
        await stuck_after_one_part(it)
        letter = await it.letter()
        assert (letter.parts, letter.posted, letter.doubtful) == (3, 1, False)
        assert letter.text.split() == ["aaaa"] * 4 + ["bbbb"] * 4 + ["cccc"] * 4, "the whole"
        before = len(it.chats.posted)
        it.edge.holds = True
        await it.box.retry(letter.id, by="ops")
        await it.settle()
        (_, second), *_ = it.edge.held
        it.edge.held.clear()
        second.set_result(None)
        await it.settle()
        it.chats.will_fail(d.ProblemKind.REFUSED, times=2)
        it.edge.holds = False
        it.edge.release()
        await it.settle()
        again = await it.letter()
        assert (again.parts, again.posted, again.delivery_id) == (2, 1, f"d1~{letter.id}")
        await it.box.retry(again.id, by="ops")
        await it.settle()
        later = [posted.post for posted in it.chats.posted[before:]]
        assert "".join(post.body.text for post in later).split() == ["bbbb"] * 4 + ["cccc"] * 4
        assert {post.reply_to for post in later} == {None}, "only the first part replies"
        assert await it.open_letters() == []


async def test_whoever_decides_second_is_told_so() -> None:
    async with office() as it:
        await refused(it, say("d1", "one"), say("d2", "two"))
        two, one = await it.open_letters()
        both = await asyncio.gather(
            it.box.retry(one.id, by="ann"), it.box.drop(one.id, by="bob"), return_exceptions=True
        )
        assert [isinstance(each, DeadLetterError) for each in both] == [False, True]
        assert "at this moment" in str(both[1])
        await it.box.drop(two.id, by="ann")
        for again in (it.box.retry, it.box.drop):
            with pytest.raises(DeadLetterError, match="was dropped already, by ann"):
                await again(two.id, by="bob")
            with pytest.raises(DeadLetterError, match="was retried already, by ann"):
                await again(one.id, by="bob")
        with pytest.raises(DeadLetterError, match="there is no dead letter 999"):
            await it.box.drop(999, by="bob")
        await it.settle()
        assert it.chats.texts() == ["one"]
        assert [fact.how for fact in it.closings()] == ["retried", "dropped"]


async def test_a_reply_to_a_dead_place_is_delivered_when_an_operator_says_so_and_not_before() -> None:
    async with office() as it:
        it.chats.will_fail(d.ProblemKind.TARGET_GONE)
        await it.say(say("d1", "one"))
        await it.say(say("d2", "two"))
        two, one = await it.open_letters()
        assert "nothing is sent to lobby" in two.error
        it.outbox.tell(d.PlaceSpoke(place=d.Place(chat="lobby"), at=it.clock.now()))
        await it.settle()
        assert len(it.facts(d.TargetRevived)) == 1
        assert it.chats.texts() == [], "being alive again delivers nothing by itself"
        await it.box.retry(one.id, by="ops")
        await it.box.retry(two.id, by="ops")
        await it.settle()
        assert it.chats.texts() == ["one", "two"]


async def test_a_retry_tries_a_place_that_is_still_held_for_dead() -> None:
    async with office() as it:
        it.chats.will_fail(d.ProblemKind.TARGET_GONE, times=2)
        await it.say(say("d1", "one"))
        await it.box.retry((await it.letter()).id, by="ops")
        await it.settle()
        again = await it.letter()
        assert again.delivery_id != "d1", "it is still dead: a new letter"
        await it.box.retry(again.id, by="ops")
        await it.settle()
        assert it.chats.texts() == ["one"]
        assert len(it.facts(d.TargetRevived)) == 1, "and what comes next is sent there again"


async def doubtful(it: LetterOffice, posted: bool) -> None:
    """Have a reply given up of which nobody knows whether it stands in the chat; it does, or not."""
    most = it.rules.attempts + 1
    if posted:
        it.chats.will_take_and_be_silent(most)
    else:
        it.chats.will_lose(most)
    assert isinstance(it.edge, Blindable)
    it.edge.blind = True
    await it.say(say("d1", "one"))
    await it.passes(3000)
    it.edge.blind = False
    it.chats.will_be_well()


@pytest.mark.parametrize("posted", [False, True])
@pytest.mark.parametrize("how", ["key", "history", "neither", "leave"])
async def test_what_may_stand_there_already_is_not_posted_twice_where_the_platform_can_tell(
    how: str, posted: bool
) -> None:
    rules = {
        "key": OutboxRules(idempotency_key=True, attempts=3),
        "history": OutboxRules(history=True, attempts=1),
        "neither": OutboxRules(),
        "leave": OutboxRules(unknown_outcome="leave"),
    }
    async with office(rules[how]) as it:
        it.makes = Blindable
        await it.restart()
        await doubtful(it, posted)
        letter = await it.letter()
        assert letter.doubtful
        assert "nobody knows" in letter.error
        before = it.chats.texts().count("one")
        await it.box.retry(letter.id, by="ops")
        await it.settle()
        assert await it.open_letters() == []
        done = it.facts(d.PartDelivered)[-1]
        if how in ("key", "history"):
            assert it.chats.texts().count("one") == 1
            assert done.maybe_duplicate == (how == "history" and not posted)
        else:
            assert it.chats.texts().count("one") == before + 1
            assert done.maybe_duplicate
            assert it.chats.posted[-1].post.maybe_duplicate


async def test_a_key_that_the_platform_has_forgotten_is_no_proof() -> None:
    async with office(OutboxRules(idempotency_key=True, key_valid_s=60, attempts=3)) as it:
        it.makes = Blindable
        await it.restart()
        await doubtful(it, posted=True)
        it.chats.keys = False
        await it.box.retry((await it.letter()).id, by="ops")
        await it.settle()
        assert it.facts(d.PartDelivered)[-1].maybe_duplicate


async def test_a_doubt_keeps_its_key_and_its_age_over_retries() -> None:
    async with office() as it:
        it.makes = Blindable
        await it.restart()
        began = it.clock.now()
        await doubtful(it, posted=False)
        first = await it.letter()
        one = await owed_again(it.journal.select, first)
        it.chats.will_lose(2)
        await it.box.retry(first.id, by="ops")
        await it.passes(3000)
        two = await owed_again(it.journal.select, await it.letter())
        assert one is not None
        assert two is not None
        assert one.doubt == two.doubt == d.Doubt(key=key_of_part(DeliveryId("d1"), 1), since=began)


def test_what_was_taken_before_there_were_retries_is_read() -> None:
    text = (
        '{"kind": "delivery_taken", "v": 1, "delivery_id": "d1", "session_key": "s", "place": {"chat": "c"},'
        ' "parts": [{"text": "one"}], "reply_to": null, "first": false, "at": "2026-01-01T12:00:00Z"}'
    )
    taken = CODEC.decode("delivery_taken", 1, text)
    assert isinstance(taken, d.DeliveryTaken)
    assert taken.doubt is None


def test_a_chat_that_moves_while_an_operator_decides_is_found() -> None:
    at = LetterOffice().clock.now()
    old, new = d.Place(chat="old"), d.Place(chat="new")
    again = d.DeliveryTaken(
        delivery_id=DeliveryId("d1~7"),
        session_key=SessionKey("s"),
        place=old,
        parts=(d.PartText(text="one"),),
        at=at,
    )
    state = fold(Outbox(), [d.PlaceMoved(old=old, new=new, at=at)])
    decided = d.LetterDecided(
        token=1, letter=7, delivery_id=DeliveryId("d1"), again=again, by="ops", at=at + timedelta(hours=1)
    )
    closed, taken = decide(state, decided, OutboxRules()).facts
    assert isinstance(closed, d.DeliveryLetterClosed)
    assert taken == again.model_copy(update={"place": new, "at": decided.at})


async def test_a_retry_goes_where_the_chat_has_moved_to() -> None:
    async with office() as it:
        await refused(it, say("d1", "one"))
        it.chats.will_fail(d.ProblemKind.TARGET_GONE, moved_to="new lobby")
        await it.say(say("d2", "two"))
        letter = await it.letter()
        assert letter.place == "fake:new lobby"
        await it.box.retry(letter.id, by="ops")
        await it.settle()
        assert it.chats.texts("new lobby") == ["two", "one"]


async def test_notices_of_ours_are_no_letters() -> None:
    """What the front desk said had its moment; the outbox's own notice says nothing of its own."""
    async with office() as it:
        desk = say("desk:fake/1", "busy, please try again").model_copy(
            update={"session_key": SessionKey("desk:fake")}
        )
        await refused(it, desk, say("send-1", "backup failed"))
        assert [fact.delivery_id for fact in it.facts(d.DeliveryFailed)] == [
            "desk:fake/1",
            "desk:fake/1/undelivered",
            "send-1",
            "send-1/undelivered",
        ]
        assert (await it.letter()).text == "backup failed"
        assert (it.letters_open, await open_letters(it.journal.select)) == (1, 1)


async def test_a_deleted_text_and_an_account_that_is_not_served_can_only_be_dropped() -> None:
    async with office() as it:
        await refused(it, say("d1", "one"), say("d2", "two"))
        two, one = await it.open_letters()
        it.served = False
        assert "no platform 'fake'" in (await it.box.all())[0].obstacle
        with pytest.raises(DeadLetterError, match=f"{one.id} cannot be retried: There is no platform 'fake'"):
            await it.box.retry(one.id, by="ops")
        it.served = True
        it.journal.erases_texts()
        assert (await it.open_letters())[0].text == ""
        with pytest.raises(DeadLetterError, match=f"{two.id} cannot be retried: its text was deleted"):
            await it.box.retry(two.id, by="ops")
        assert (await it.box.drop(two.id, by="ops")).state == "dropped"
        assert [letter.id for letter in await it.open_letters()] == [one.id]
        assert it.chats.texts() == []


async def test_a_letter_of_an_account_that_is_not_served_is_dropped_without_its_outbox() -> None:
    it = LetterOffice()
    await it.start()
    await refused(it, say("d1", "one"))
    it.edge.holds = True
    await it.say(say("d2", "is owed", chat="other"))
    await it.crash()
    it.served = False
    letter = await it.letter()
    assert (await it.box.drop(letter.id, by="ops")).state == "dropped"
    assert await it.journal.owed() == (STREAM,), "what is owed stays owed"
    assert it.letters_open == 0
    it.served = True
    await it.start()
    assert it.delivered() == ["d2"]
    with pytest.raises(DeadLetterError, match="was dropped already"):
        await it.box.retry(letter.id, by="ops")
    await it.crash()


async def test_an_outbox_that_does_not_answer_is_said_and_decides_once_all_the_same() -> None:
    async with office() as it:
        await refused(it, say("d1", "one"))
        letter = await it.letter()
        it.journal.hold()
        first = asyncio.ensure_future(it.box.retry(letter.id, by="ann"))
        await it.passes(PATIENCE_S + 1)
        with pytest.raises(DeadLetterError, match="may still do so"):
            await first
        second = asyncio.ensure_future(it.box.drop(letter.id, by="bob"))
        await it.settle()
        it.journal.release()
        await it.settle()
        with pytest.raises(DeadLetterError, match="a moment ago"):
            await second
        assert (await it.box.all())[0].closed_by == "ann"
        assert it.chats.texts() == ["one"]


CUTS = 11
RULES = {"key": OutboxRules(limit=20, idempotency_key=True), "neither": OutboxRules(limit=20)}


@pytest.mark.parametrize("how", RULES)
@pytest.mark.parametrize("at", range(1, CUTS + 1))
async def test_the_power_may_go_at_any_instant_of_a_retry(how: str, at: int) -> None:
    """Between the decision and the last receipt: nothing is lost, nothing is there twice unmarked, nothing stays open."""
    it = LetterOffice(RULES[how], Fuse())
    await it.start()
    await stuck_after_one_part(it)
    letter = await it.letter()
    before = len(it.chats.posted)
    it.fuse.lay(at)
    retry = asyncio.ensure_future(it.box.retry(letter.id, by="ops"))
    await it.settle()
    await it.passes(PATIENCE_S + 1)
    await asyncio.gather(retry, return_exceptions=True)
    await it.crash()
    it.fuse.lay(1_000_000)
    it.fuse.mend()
    await it.start()
    for still in await it.open_letters():
        assert still.id == letter.id, "it was lost before it was written"
        await it.box.retry(still.id, by="ops")
    await it.passes(200)
    later = [posted.post for posted in it.chats.posted[before:]]
    copies = Counter(post.key for post in later)
    texts = "".join(dict.fromkeys(post.body.text for post in later))
    assert texts.split() == ["bbbb"] * 4 + ["cccc"] * 4
    assert max(copies.values()) == 1 if how == "key" else max(copies.values()) <= 2
    marked = Counter(post.key for post in later if post.maybe_duplicate)
    assert all(marked[key] == count - 1 for key, count in copies.items() if count > 1)
    assert len(it.closings()) == 1
    assert await it.open_letters() == []
    assert it.facts(d.DeliveryDone)[-1].delivery_id == f"d1~{letter.id}"
    await it.crash()


async def test_that_walk_is_long_enough() -> None:
    """The last cut comes after everything is done."""
    it = LetterOffice(RULES["key"], Fuse())
    await it.start()
    await stuck_after_one_part(it)
    it.fuse.lay(CUTS)
    await it.box.retry((await it.letter()).id, by="ops")
    await it.settle()
    assert not it.fuse.out
    await it.crash()
