"""The outbox: in order, each part once, and what is done when a call fails or nobody knows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors.gateway.outbox_actor import PATIENCE_S
from actors.gateway.outbox_state import DONE_IN_A_GENERATION, GENERATIONS, Outbox, fold
from actors.gateway.parts import OutboxRules, parts_of
from messages import delivery as d
from messages.blocks import FileBlock
from messages.gateway import ChatType, Part, Say, SayingSucceeded
from messages.ids import DeliveryId, SessionKey
from tests.actors.gateway.post_office import PostOffice, say

SMALL = OutboxRules(limit=20)
LEFT_OUT_HERE = "(Thefilereport.pdfcouldnotbesenthere:toldtofail.Itiskeptas/kept/report.pdf.)"


@asynccontextmanager
async def office(rules: OutboxRules | None = None) -> AsyncIterator[PostOffice]:
    it = PostOffice(rules)
    await it.start()
    try:
        yield it
    finally:
        await it.crash()


async def test_a_reply_is_posted_and_its_session_told() -> None:
    async with office() as it:
        await it.say(say("d1", "hello"))
        assert it.chats.texts() == ["hello"]
        assert it.told == [SayingSucceeded(delivery_id=DeliveryId("d1"), receipt="post-1", at=it.clock.now())]
        assert it.kinds() == ["delivery_taken", "part_tried", "part_delivered", "delivery_done"]
        assert it.chats.posted[0].post.reply_to == "m1"
        assert await it.journal.owed() == ()
        assert it.counted == ["posted"]


async def test_order_in_a_chat_and_chats_beside_each_other() -> None:
    async with office(OutboxRules(at_once=2)) as it:
        it.edge.holds = True
        await it.say(*(say(f"{chat}{n}", f"{chat}{n}", chat=chat) for n in range(3) for chat in "abc"))
        assert [post.body.text for post, _ in it.edge.held] == ["a0", "b0"]  # two at once, one a chat
        it.edge.holds = False
        it.edge.release()
        await it.settle()
        for chat in "abc":
            assert it.chats.texts(chat) == [f"{chat}{n}" for n in range(3)]
        assert sorted(it.delivered()) == sorted(f"{chat}{n}" for chat in "abc" for n in range(3))


async def test_a_repeated_say_is_answered_at_once_and_posted_once() -> None:
    async with office() as it:
        await it.say(say("d1", "hello"))
        await it.say(say("d1", "hello"))
        assert it.chats.texts() == ["hello"]
        assert it.delivered() == ["d1", "d1"]
        await it.restart()
        await it.say(say("d1", "hello"))
        assert it.chats.texts() == ["hello"]
        assert it.delivered() == ["d1", "d1", "d1"]


async def test_a_long_reply_comes_in_parts_each_with_its_own_receipt() -> None:
    async with office(SMALL) as it:
        await it.say(say("d1", "one two three four five six seven eight"))
        assert "".join(it.chats.texts()) == "one two three four five six seven eight"
        assert it.told[0].receipt == "post-1 post-2"  # type: ignore[union-attr]
        assert [p.post.reply_to for p in it.chats.posted] == ["m1", None]
        keys = {p.post.key for p in it.chats.posted}
        assert len(keys) == 2
        assert all(len(key) == 24 for key in keys)


async def test_D13_a_part_that_fails_is_tried_again_alone() -> None:
    async with office(SMALL) as it:
        it.edge.holds = True
        await it.say(say("d1", "aaaa aaaa aaaa aaaa bbbb bbbb bbbb bbbb cccc cccc cccc cccc"))
        it.edge.holds = False
        it.edge.release()  # the first part is taken by the call that waited
        it.chats.will_fail(d.ProblemKind.TRANSIENT)
        await it.settle()
        await it.passes(10)
        assert "".join(it.chats.texts()).split() == ["aaaa"] * 4 + ["bbbb"] * 4 + ["cccc"] * 4
        assert len(it.chats.texts()) == len({p.post.key for p in it.chats.posted})
        assert it.delivered() == ["d1"]


async def test_D13_after_a_part_that_fails_for_good_the_rest_is_not_sent_and_the_chat_is_told() -> None:
    async with office(SMALL) as it:
        it.edge.holds = True
        await it.say(say("d1", "aaaa aaaa aaaa aaaa bbbb bbbb bbbb bbbb cccc"), say("d2", "next"))
        first = it.edge.held[:1]
        it.edge.held.clear()
        first[0][1].set_result(None)
        await it.settle()
        it.chats.will_fail(d.ProblemKind.REFUSED)
        it.edge.holds = False
        it.edge.release()
        await it.settle()
        texts = it.chats.texts()
        assert texts[0].startswith("aaaa")
        assert (
            "".join(texts[1:-1]) == "(The rest of this answer could not be delivered: refused: told to fail)"
        )
        assert texts[-1] == "next"
        assert it.failed() == ["d1"]
        assert it.delivered() == ["d2"]
        assert it.incidents[0][0] == "dead_letter"


async def test_a_transient_failure_is_tried_again_with_longer_waits_and_given_up_in_the_end() -> None:
    async with office(OutboxRules(attempts=3)) as it:
        it.chats.will_fail(d.ProblemKind.TRANSIENT, times=3)
        await it.say(say("d1", "hello"))
        await it.passes(0.99)
        assert it.chats.calls == 1
        await it.passes(1.0)
        assert it.chats.calls == 2
        await it.passes(300)
        await it.say(say("d2", "other"))
        assert it.failed() == ["d1"]
        assert it.delivered() == ["d2"]
        assert "3 tries" in it.facts(d.DeliveryFailed)[0].why


async def test_retry_after_holds_its_chat_alone() -> None:
    async with office() as it:
        it.chats.will_fail(d.ProblemKind.RATE_LIMITED, retry_after_s=30.0)
        await it.say(say("a1", "a1", chat="a"), say("a2", "a2", chat="a"), say("b1", "b1", chat="b"))
        assert it.chats.texts() == ["b1"]
        await it.passes(29.9)
        assert it.chats.texts() == ["b1"]
        await it.passes(0.2)
        assert it.chats.texts() == ["b1", "a1", "a2"]


async def test_a_rate_limit_that_says_at_once_again_and_again_is_not_hammered_at() -> None:
    async with office() as it:
        it.chats.will_fail(d.ProblemKind.RATE_LIMITED, times=200, retry_after_s=0.0)
        await it.say(say("d1", "hello"))
        await it.passes(60)
        assert 3 <= it.chats.calls <= 10


async def test_a_long_rate_limit_is_said_to_the_operator_and_kept_to() -> None:
    async with office() as it:
        it.chats.will_fail(d.ProblemKind.RATE_LIMITED, retry_after_s=900.0)
        await it.say(say("d1", "hello"))
        assert [what for what, _ in it.incidents] == ["rate_limited"]
        await it.passes(899.0)
        assert it.chats.calls == 1
        await it.passes(2.0)
        assert it.chats.texts() == ["hello"]


async def test_a_rate_limit_of_the_account_holds_all() -> None:
    async with office() as it:
        it.chats.will_fail(d.ProblemKind.RATE_LIMITED, retry_after_s=30.0, whole_account=True)
        await it.say(say("a1", "a1", chat="a"))
        await it.say(say("b1", "b1", chat="b"))
        assert it.chats.texts() == []
        await it.passes(30.1)
        assert sorted(it.chats.texts()) == ["a1", "b1"]


async def test_rate_limits_never_give_a_reply_up() -> None:
    async with office(OutboxRules(attempts=2)) as it:
        it.chats.will_fail(d.ProblemKind.RATE_LIMITED, times=20, retry_after_s=1.0)
        await it.say(say("d1", "hello"))
        await it.passes(30)
        assert it.chats.texts() == ["hello"]


# ------------------------------------------------------------------ nobody knows


async def test_D07_with_a_key_the_same_call_is_made_again_and_stands_once() -> None:
    async with office(OutboxRules(idempotency_key=True)) as it:
        it.chats.will_take_and_be_silent(3)
        await it.say(say("d1", "hello"))
        await it.passes(120)
        assert it.chats.texts() == ["hello"]
        assert it.delivered() == ["d1"]
        assert not it.facts(d.PartDelivered)[0].maybe_duplicate
        assert len(it.facts(d.PartUnclear)) == 3


async def test_D07_with_a_history_it_is_looked_for_first() -> None:
    async with office(OutboxRules(history=True)) as it:
        it.chats.will_take_and_be_silent()
        await it.say(say("d1", "hello"))
        await it.passes(10)
        assert it.chats.texts() == ["hello"]
        assert it.chats.calls == 1
        assert it.delivered() == ["d1"]
        assert not it.facts(d.PartDelivered)[0].maybe_duplicate


async def test_with_a_history_and_not_there_it_is_sent_again_marked() -> None:
    async with office(OutboxRules(history=True)) as it:
        it.chats.will_lose()
        await it.say(say("d1", "hello"))
        await it.passes(10)
        assert it.chats.texts() == ["hello"]
        assert it.edge.looked == 1
        assert it.chats.posted[0].post.maybe_duplicate
        assert it.facts(d.DeliveryDone)[0].maybe_duplicate


@pytest.mark.parametrize("silent", [1, 2, 9])
async def test_D07_with_neither_it_is_sent_once_more_marked_and_never_a_third_time(silent: int) -> None:
    async with office(OutboxRules()) as it:
        it.chats.will_take_and_be_silent(silent)
        await it.say(say("d1", "hello"))
        await it.passes(600)
        assert it.chats.texts().count("hello") == 2
        assert [p.post.maybe_duplicate for p in it.chats.posted[:2]] == [False, True]
        assert it.told
        assert any(what == "unclear" for what, _ in it.incidents)


async def test_D07_with_neither_it_is_left_alone_where_the_operator_says_so() -> None:
    async with office(OutboxRules(unknown_outcome="leave")) as it:
        it.chats.will_take_and_be_silent()
        await it.say(say("d1", "hello"), say("d2", "next"))
        await it.passes(60)
        assert it.chats.texts().count("hello") == 1
        assert it.failed() == ["d1"]
        assert it.delivered() == ["d2"]


async def test_D07_with_a_key_a_call_that_never_ends_well_is_given_up_and_the_next_goes_on() -> None:
    async with office(OutboxRules(idempotency_key=True, attempts=4)) as it:
        it.chats.will_fail(d.ProblemKind.UNKNOWN, times=4)
        await it.say(say("d1", "poison"), say("d2", "next"))
        await it.passes(3600)
        assert it.failed() == ["d1"]
        assert it.delivered() == ["d2"]
        assert len(it.facts(d.PartUnclear)) == 4


async def test_D07_with_neither_the_last_try_waits_until_a_short_trouble_is_over() -> None:
    async with office() as it:
        it.chats.will_fail(d.ProblemKind.UNKNOWN)
        await it.say(say("d1", "hello"))
        await it.passes(9.9)
        assert it.chats.calls == 1
        await it.passes(0.2)
        assert it.chats.texts() == ["hello"]


async def test_a_key_that_the_platform_has_forgotten_protects_no_more() -> None:
    async with office(OutboxRules(idempotency_key=True, key_valid_s=300, history=True)) as it:
        it.chats.will_lose()
        await it.say(say("d1", "hello"))
        it.edge.loses_connection()
        await it.crash()
        await it.clock.advance(301)
        await it.start()
        assert it.edge.looked == 1
        assert it.chats.texts() == ["hello"]
        assert it.facts(d.PartDelivered)[0].maybe_duplicate


async def test_D12_a_crash_between_taken_and_recorded() -> None:
    for rules, copies, marked in (
        (OutboxRules(idempotency_key=True), 1, False),
        (OutboxRules(history=True), 1, False),
        (OutboxRules(), 2, True),
    ):
        it = PostOffice(rules)
        await it.start()
        it.edge.holds = True
        await it.say(say("d1", "hello"))
        it.chats.take(it.edge.held[0][0])  # the platform has it; we never hear of it
        await it.restart()
        assert it.chats.texts() == ["hello"] * copies
        assert it.delivered() == ["d1"]
        assert it.facts(d.DeliveryDone)[0].maybe_duplicate is marked
        await it.crash()


async def test_no_answer_at_all_counts_as_unknown_in_the_end() -> None:
    async with office(OutboxRules(idempotency_key=True)) as it:
        it.edge.holds = True
        await it.say(say("d1", "hello"))
        it.edge.held.clear()  # whoever would have answered is gone
        it.edge.holds = False
        await it.passes(PATIENCE_S + 5)
        assert it.chats.texts() == ["hello"]
        assert it.delivered() == ["d1"]


# ------------------------------------------------------------------ dead targets


async def test_D08_a_gone_chat_gets_one_call_and_nothing_more_until_somebody_speaks_there() -> None:
    async with office() as it:
        it.chats.will_fail(d.ProblemKind.TARGET_GONE)
        await it.say(say("d1", "one"), say("d2", "two"), say("x1", "other", chat="elsewhere"))
        assert it.chats.calls == 2
        assert it.failed() == ["d1", "d2"]
        await it.say(say("d3", "three"))
        assert it.chats.calls == 2
        assert it.failed() == ["d1", "d2", "d3"]
        await it.restart()
        await it.say(say("d4", "four"))
        assert it.failed()[-1] == "d4"
        it.outbox.tell(d.PlaceSpoke(place=d.Place(chat="lobby"), at=it.clock.now()))
        await it.say(say("d5", "five"))
        assert it.chats.texts("lobby") == ["five"]
        assert it.facts(d.TargetRevived)


async def test_D08_a_refused_text_does_not_kill_the_chat() -> None:
    async with office() as it:
        it.chats.will_fail(d.ProblemKind.REFUSED)
        await it.say(say("d1", "one"), say("d2", "two"))
        assert it.failed() == ["d1"]
        assert it.delivered() == ["d2"]
        assert it.facts(d.TargetDied) == []
        assert it.chats.texts()[0].startswith("(An answer could not be delivered here")


async def test_a_dead_chat_is_probed_after_some_hours_and_revived_by_success() -> None:
    async with office() as it:
        it.chats.will_fail(d.ProblemKind.TARGET_GONE)
        await it.say(say("d1", "one"))
        await it.passes(6 * 3600)
        await it.say(say("d2", "two"))
        assert it.chats.texts() == ["two"]
        assert it.facts(d.TargetRevived)


@pytest.mark.parametrize(
    ("died", "spoke"),
    [
        (d.Place(chat="lobby"), d.Place(chat="lobby", thread="t2")),
        (d.Place(chat="lobby", thread="t1"), d.Place(chat="lobby")),
        (d.Place(chat="lobby", thread="t1"), d.Place(chat="lobby", thread="t2")),
    ],
)
async def test_D08_a_word_anywhere_in_the_chat_revives_all_of_it(died: d.Place, spoke: d.Place) -> None:
    async with office() as it:
        origin = say("x", "", chat="lobby").origin.model_copy(update={"thread": died.thread})
        it.chats.will_fail(d.ProblemKind.TARGET_GONE)
        await it.say(say("d1", "one").model_copy(update={"origin": origin}))
        it.outbox.tell(d.PlaceSpoke(place=d.Place(chat="elsewhere"), at=it.clock.now()))
        await it.say(say("d2", "two").model_copy(update={"origin": origin}))
        assert it.failed() == ["d1", "d2"]
        it.outbox.tell(d.PlaceSpoke(place=spoke, at=it.clock.now()))
        await it.say(say("d3", "three").model_copy(update={"origin": origin}))
        assert it.delivered() == ["d3"]


async def test_somebody_must_do_something() -> None:
    async with office(OutboxRules(attempts=2)) as it:
        it.chats.will_fail(d.ProblemKind.NEEDS_HUMAN, times=5)
        await it.say(say("d1", "one"))
        await it.passes(400)
        assert it.chats.texts() == ["one"]
        assert [what for what, _ in it.incidents] == ["needs_human"]


# ------------------------------------------------------------------ what is posted


async def test_silence_and_nothing() -> None:
    async with office() as it:
        await it.say(
            say("d1", "NO_REPLY"), say("d2", " \n"), say("d3", "NO_REPLY", notice=True), say("d4", "", "x")
        )
        assert it.chats.texts() == ["NO_REPLY", "x"]
        assert [e.receipt for e in it.told[:2] if isinstance(e, SayingSucceeded)] == ["silent", "empty"]
        assert len(it.told) == 4


def test_a_very_long_answer_comes_as_a_file_or_is_cut_with_a_pointer() -> None:
    text = "word " * 200
    parts = parts_of(say("d1", text), OutboxRules(limit=100, most_parts=3, files=True))
    assert parts[-1].file_name == "answer.md"
    assert parts[-1].text == text
    assert len(parts) == 3
    cut = parts_of(say("d1", text), OutboxRules(limit=100, most_parts=3))
    assert len(cut) == 3
    assert cut[-1].text.startswith("(Cut here: 800 more characters")
    assert all(len(part.text) <= 100 for part in cut)


def test_a_platform_that_splits_itself_gets_the_text_whole() -> None:
    parts = parts_of(say("d1", "word " * 2000), OutboxRules(limit=100, splits_itself=True))
    assert len(parts) == 1


def with_file(delivery: str, text: str, **more: Any) -> Say:
    file = FileBlock(name="report.pdf", mime="application/pdf", path="/kept/report.pdf", size=9)
    return say(delivery, text).model_copy(update={"parts": (Part(text=text, file=file),), **more})


@pytest.mark.parametrize(
    ("kind", "times"),
    [(d.ProblemKind.REFUSED, 1), (d.ProblemKind.TRANSIENT, 2), (d.ProblemKind.TRANSIENT, 1)],
)
async def test_D10_a_file_that_is_refused_takes_no_words_with_it(kind: d.ProblemKind, times: int) -> None:
    async with office(OutboxRules(files=True, caption=20, limit=200, attempts=2)) as it:
        text = "All the numbers are in the report, and here is the sum: 42."
        it.chats.will_fail(kind, times=times)
        await it.say(with_file("d1", text))
        await it.passes(60)
        texts = [post.post.body.text for post in it.chats.posted]
        if kind is d.ProblemKind.TRANSIENT and times == 1:
            assert it.chats.posted[0].post.body.file is not None
        else:
            assert texts[0].endswith(
                "(The file report.pdf could not be sent here: told to fail. It is kept as /kept/report.pdf.)"
            )
            assert it.facts(d.PartNotTaken)[-1].problem.kind is kind
        assert "".join("".join(texts).split()).replace(LEFT_OUT_HERE, "") == "".join(text.split())
        assert it.delivered() == ["d1"]


async def test_D10_a_file_alone_that_is_refused_is_told_in_the_chat_and_after_a_crash_too() -> None:
    async with office(OutboxRules(files=True, idempotency_key=True)) as it:
        it.chats.will_fail(d.ProblemKind.REFUSED)
        it.chats.will_lose()
        await it.say(with_file("d1", ""))
        await it.restart()
        assert it.chats.texts() == [
            "(The file report.pdf could not be sent here: told to fail. It is kept as /kept/report.pdf.)"
        ]
        assert it.delivered() == ["d1"]


async def test_D10_who_sends_a_file_from_the_command_line_is_told_that_it_was_refused() -> None:
    async with office(OutboxRules(files=True)) as it:
        it.chats.will_fail(d.ProblemKind.REFUSED)
        await it.say(with_file("d1", "look", session_key=SessionKey("send")))
        assert it.failed() == ["d1"]


async def test_targets() -> None:
    async with office() as it:
        await it.say(
            say("d1", "there", target="fake:other:42"),
            say("d2", "home", target="fake"),
            say("d3", "kept", target="local"),
            say("d4", "lost", target="nowhere:1"),
        )
        places = {p.post.body.text: str(p.post.place) for p in it.chats.posted}
        assert places == {"there": "other:42", "home": "home"}
        assert sorted(it.delivered()) == ["d1", "d2", "d3", "d4"]


# ------------------------------------------------------------------ lives


async def test_what_is_owed_while_the_platform_is_away_goes_out_when_it_is_back() -> None:
    it = PostOffice()
    it.reachable = False
    await it.start()
    await it.say(*(say(f"d{n}", f"t{n}") for n in range(5)))
    assert it.chats.calls == 0
    assert it.kinds() == ["delivery_taken"] * 5
    await it.passes(600)
    assert it.states[-1].startswith("degraded")
    assert [what for what, _ in it.incidents] == ["fell", "degraded"]
    it.reachable = True
    await it.passes(61)
    assert it.chats.texts() == [f"t{n}" for n in range(5)]
    assert [what for what, _ in it.incidents] == ["fell", "degraded", "rose"]
    await it.crash()


async def test_the_journal_away_for_a_while_loses_nothing() -> None:
    async with office() as it:
        it.journal.will_fail_next_append()
        await it.say(say("d1", "one"), say("d2", "two"))
        assert not it.outbox.is_alive()
        it.start_outbox()
        await it.settle()
        assert it.chats.texts() == ["one", "two"]
        assert it.delivered() == ["d1", "d2"]


async def test_a_burst_is_recorded_in_a_few_appends() -> None:
    async with office() as it:
        await it.say(*(say(f"d{n}", f"t{n}", chat=f"c{n}") for n in range(100)))
        assert len(it.delivered()) == 100
        assert len(it.facts()) == 400
        assert it.journal.appends < 60


@pytest.mark.slow
async def test_done_deliveries_leave_the_memory_and_a_new_life_reads_only_the_end() -> None:
    async with office() as it:
        for start in range(0, 6000, 500):
            await it.say(*(say(f"d{n}", "x", chat=f"c{n % 50}") for n in range(start, start + 500)))
            for _ in range(20):
                await it.settle()
        assert len(it.delivered()) == 6000
        marks = it.journal.facts("outbox-settled:fake:main")  # type: ignore[arg-type]
        assert marks
        through = marks[-1].through  # type: ignore[attr-defined]
        assert through > 4000
        await it.restart()
        state = fold(Outbox(), it.facts()[through:])
        assert sum(map(len, state.done)) <= DONE_IN_A_GENERATION * GENERATIONS
        await it.say(say("d5999", "x", chat="c1"), say("d4000", "x", chat="c1"))
        assert len(it.chats.posted) == 6000
        await it.say(say("new", "x", chat="c1"))
        assert len(it.chats.posted) == 6001


async def test_nothing_is_left_behind_in_memory() -> None:
    async with office(SMALL) as it:
        it.chats.will_fail(d.ProblemKind.TRANSIENT)
        await it.say(*(say(f"d{n}", "aaaa bbbb cccc dddd eeee ffff", chat=f"c{n}") for n in range(50)))
        await it.passes(100)
        assert len(it.delivered()) == 50
        facts = it.facts()
        state = fold(Outbox(), facts)
        assert (state.owed, state.queues, state.ready, state.dead) == ({}, {}, {}, {})
        assert it.load == 0


async def test_a_direct_message_without_a_chat_goes_to_its_user() -> None:
    async with office() as it:
        await it.say(say("d1", "hi", chat="", chat_type=ChatType.DM))
        assert it.chats.posted[0].post.place == d.Place(chat=None, user="ann")
