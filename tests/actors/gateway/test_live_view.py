"""What people see while an answer is made: in time, within the platform's limits, and never in the answer's way."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise

import pytest

from actors.gateway.live_view import FIRST_LOOK_S, TAKEN_UP_S, LiveLinks, LiveRules, LiveViewActor
from actors.runtime import ActorSystem
from messages import delivery as d
from messages.base import Message
from messages.gateway import ChatType, Origin
from messages.ids import DeliveryId, MessageId, SessionKey
from tests.fakes.clock import ManualClock

ALL = LiveRules(typing=True, reactions=True, drafts=True, buttons=True, length=400)
TELEGRAM_GROUP = replace(ALL, edits_per_second=1.0, edits_per_minute=20)
LONG = "All the king's horses and all the king's men could not put Humpty together again. "


class Platform:
    """Shows what it is told, one moment later, or says why not."""

    def __init__(self, rules: LiveRules) -> None:
        self.clock = ManualClock()
        self.system = ActorSystem(self.clock)
        self.shown: list[tuple[float, d.EdgeView]] = []
        self.tokens: list[tuple[int, d.EdgeView]] = []
        self.to_outbox: list[d.DraftPosted | d.DraftOver] = []
        self.written: dict[str, tuple[int, str]] = {}
        self.stands: dict[str, str] = {}
        self.problem: d.Problem | None = None
        self.answers = True
        links = LiveLinks(
            tell_platform=self._show,
            tell_outbox=self.to_outbox.append,
            draft_now=lambda key: self.written.get(key, (0, "")),
            standing=self.stands.get,
        )
        self.live = LiveViewActor.start(self.system, "fake", rules, links)

    def _show(self, asked: d.ShowView) -> None:
        self.shown.append((self.clock.monotonic(), asked.view))
        self.tokens.append((asked.token, asked.view))
        if not self.answers:
            return
        new = isinstance(asked.view, d.DraftShown) and asked.view.receipt is None and self.problem is None
        self.live.tell(
            d.ViewShown(
                token=asked.token,
                receipt=f"draft-{len(self.shown)}" if new else None,
                problem=self.problem,
                at=self.clock.now(),
            )
        )

    def begins(self, chat: str = "lobby", turn: int = 1) -> None:
        origin = Origin(platform="fake", chat_type=ChatType.GROUP, chat=chat, user="ann")
        self.live.tell(
            d.TurnSeen(
                session_key=SessionKey(chat),
                turn=turn,
                delivery_id=DeliveryId(f"{chat}/turn-{turn}"),
                origin=origin,
                message_ids=(MessageId("m1"), MessageId("m2")),
            )
        )

    def ends(self, chat: str = "lobby", turn: int = 1) -> None:
        origin = Origin(platform="fake", chat_type=ChatType.GROUP, chat=chat, user="ann")
        self.live.tell(d.TurnGone(session_key=SessionKey(chat), turn=turn, origin=origin))

    def writes(self, text: str, chat: str = "lobby", turn: int = 1) -> None:
        self.written[chat] = (turn, text)

    async def passes(self, seconds: float) -> None:
        await self.clock.settle()
        await self.clock.advance(seconds)

    def of(self, kind: type[Message]) -> list[d.EdgeView]:
        return [view for _, view in self.shown if isinstance(view, kind)]

    def drafts(self, chat: str | None = None) -> list[d.DraftShown]:
        views = [view for _, view in self.shown if isinstance(view, d.DraftShown)]
        return [view for view in views if chat is None or view.place.chat == chat]


@asynccontextmanager
async def platform(rules: LiveRules = ALL) -> AsyncIterator[Platform]:
    it = Platform(rules)
    try:
        yield it
    finally:
        await it.system.stop_all(timeout_s=5.0)


async def test_a_quick_answer_shows_nothing_but_itself() -> None:
    async with platform() as it:
        it.begins()
        it.writes(LONG)
        await it.passes(FIRST_LOOK_S - 0.1)
        it.ends()
        await it.passes(60)
        assert it.shown == []
        assert it.to_outbox == []


async def test_a_long_answer_grows_in_one_message_and_its_outbox_knows_it() -> None:
    async with platform() as it:
        it.begins()
        it.writes(LONG)
        await it.passes(2)
        it.writes(LONG * 2)
        await it.passes(2)
        first, second = it.drafts()
        assert (first.receipt, first.reply_to, first.text) == (None, "m1", LONG.strip())
        assert (second.receipt, second.reply_to) == ("draft-2", None)
        assert second.text == (LONG * 2).strip()
        assert [button.command for button in first.buttons] == ["/stop"]
        (posted,) = it.to_outbox
        assert isinstance(posted, d.DraftPosted)
        assert (posted.delivery_id, posted.receipt) == ("lobby/turn-1", "draft-2")
        it.ends()
        await it.passes(TAKEN_UP_S)
        assert isinstance(it.to_outbox[-1], d.DraftOver)


async def test_signs_and_typing_while_it_takes_long() -> None:
    async with platform() as it:
        it.begins()
        await it.passes(12)
        marks = it.of(d.ReactionShown)
        assert [(m.message_id, m.sign) for m in marks if isinstance(m, d.ReactionShown)] == [
            ("m1", "working")
        ]
        assert 2 <= len(it.of(d.TypingShown)) <= 3
        it.ends()
        await it.passes(1)
        assert [m.sign for m in it.of(d.ReactionShown) if isinstance(m, d.ReactionShown)] == [
            "working",
            "done",
        ]


async def test_what_the_platform_cannot_do_is_not_shown() -> None:
    async with platform(LiveRules(typing=True)) as it:
        it.begins()
        it.writes(LONG)
        await it.passes(30)
        assert {type(view) for _, view in it.shown} == {d.TypingShown}


@pytest.mark.parametrize("text", ["NO_REPLY", "short", " " * 200])
async def test_silence_and_trifles_are_no_draft(text: str) -> None:
    async with platform() as it:
        it.begins()
        it.writes(text)
        await it.passes(20)
        assert it.drafts() == []


async def test_a_draft_is_never_longer_than_a_post() -> None:
    async with platform() as it:
        it.begins()
        it.writes(LONG * 30)
        await it.passes(3)
        assert 0 < len(it.drafts()[0].text) <= ALL.length


async def test_A14_edits_keep_to_the_platforms_pace_in_eight_groups_at_once() -> None:
    async with platform(TELEGRAM_GROUP) as it:
        for n in range(8):
            it.begins(f"g{n}")
        for step in range(200):
            for n in range(8):
                it.writes(LONG + "word " * step, f"g{n}")
            await it.passes(0.5)
        for n in range(8):
            at = [
                when
                for when, view in it.shown
                if isinstance(view, d.DraftShown) and view.place.chat == f"g{n}"
            ]
            assert len(at) > 20
            assert all(later - earlier >= 1.0 - 1e-6 for earlier, later in pairwise(at))
            assert all(sum(when <= other < when + 60 for other in at) <= 20 for when in at)


async def test_A14_a_long_flood_wait_ends_the_live_view_of_that_turn() -> None:
    async with platform() as it:
        it.begins()
        it.writes(LONG)
        it.problem = d.Problem(kind=d.ProblemKind.RATE_LIMITED, retry_after_s=13_938)
        await it.passes(2)
        it.problem = None
        shown = len(it.shown)
        it.begins("elsewhere")
        it.writes(LONG * 2)
        it.writes(LONG, "elsewhere")
        await it.passes(30)
        assert all(view.place.chat == "elsewhere" for _, view in it.shown[shown:])
        assert it.drafts("elsewhere")


async def test_a_short_wait_is_obeyed_and_then_it_goes_on() -> None:
    async with platform(replace(ALL, typing=False, reactions=False)) as it:
        it.begins()
        it.writes(LONG)
        it.problem = d.Problem(kind=d.ProblemKind.RATE_LIMITED, retry_after_s=20)
        await it.passes(2)
        it.problem = None
        refused_at = it.shown[-1][0]
        await it.passes(40)
        later = [when for when, _ in it.shown if when > refused_at]
        assert later
        assert later[0] >= refused_at + 20


async def test_a_platform_that_fails_again_and_again_is_left_alone() -> None:
    async with platform(replace(ALL, typing=False, reactions=False)) as it:
        it.problem = d.Problem(kind=d.ProblemKind.REFUSED)
        it.begins()
        for step in range(20):
            it.writes(LONG + "word " * step)
            await it.passes(1)
        assert len(it.shown) == 3


async def test_one_view_at_a_time_and_a_platform_that_never_answers_is_not_flooded() -> None:
    async with platform(replace(ALL, typing=False, reactions=False)) as it:
        it.answers = False
        it.begins()
        for step in range(20):
            it.writes(LONG + "word " * step)
            await it.passes(1)
        assert len(it.drafts()) == 1


async def test_a_draft_of_an_earlier_life_goes_on_in_place() -> None:
    async with platform() as it:
        it.stands["lobby/turn-1"] = "draft-0"
        it.begins()
        it.writes(LONG)
        await it.passes(2)
        assert it.drafts()[0].receipt == "draft-0"
        assert [told.receipt for told in it.to_outbox if isinstance(told, d.DraftPosted)] == ["draft-0"]


async def test_a_draft_that_comes_after_its_turn_is_over_soon() -> None:
    async with platform() as it:
        it.answers = False
        it.begins()
        it.writes(LONG)
        await it.passes(2)
        assert len(it.drafts()) == 1
        it.ends()
        await it.passes(TAKEN_UP_S + 1)
        assert it.to_outbox == []
        (token,) = (token for token, view in it.tokens if isinstance(view, d.DraftShown))
        it.live.tell(d.ViewShown(token=token, receipt="draft-9", at=it.clock.now()))
        await it.passes(TAKEN_UP_S + 1)
        assert [type(told) for told in it.to_outbox] == [d.DraftPosted, d.DraftOver]


async def test_a_first_draft_of_which_nobody_knows_is_not_followed_by_another() -> None:
    async with platform() as it:
        it.problem = d.Problem(kind=d.ProblemKind.UNKNOWN)
        it.begins()
        it.writes(LONG)
        await it.passes(20)
        assert len(it.drafts()) == 1
