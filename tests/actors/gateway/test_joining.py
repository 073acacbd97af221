"""A long text that a person's program cut is one message again, and nothing else waits."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from actors.gateway.chunks import Unit
from actors.gateway.edge import EdgeError
from actors.gateway.joining import MOMENT_S, MOST_PIECES, WAIT_S, Joiner, JoinRules, goes_on, joined, patience
from messages.blocks import FileBlock
from messages.delivery import ProblemKind
from messages.gateway import (
    Acceptance,
    Author,
    ChatMoved,
    ChatType,
    EdgeHeard,
    MessageDeleted,
    MessageEdited,
    MessageReceived,
    Origin,
    Quote,
    Receipt,
)
from messages.ids import MessageId
from tests.fakes.clock import START, ManualClock

RULES = JoinRules(4096)


def said(text: str, message_id: str, user: str = "ann", chat: str = "lobby", **more: Any) -> MessageReceived:
    return MessageReceived(
        message_id=MessageId(message_id),
        origin=Origin(platform="fake", chat_type=ChatType.GROUP, chat=chat, user=user),
        author=Author(id=user),
        text=text,
        at=START,
        **more,
    )


class Desk:
    """Whoever hears what is joined; and the people who talk."""

    def __init__(self, rules: JoinRules | None = RULES) -> None:
        self.clock = ManualClock()
        self.heard: list[EdgeHeard] = []
        self.open = asyncio.Event()
        self.open.set()
        self.fails: Exception | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self.joiner = Joiner(rules, self.clock, self._hear, self._spawn)

    def _spawn(self, coro: Any) -> None:
        self._tasks.append(asyncio.ensure_future(coro))

    async def _hear(self, heard: EdgeHeard) -> Receipt:
        self.heard.append(heard)
        await self.open.wait()
        if self.fails is not None:
            raise self.fails
        message_id = getattr(heard, "message_id", MessageId(""))
        return Receipt(message_id=message_id, session_key=None, acceptance=Acceptance.ACCEPTED)

    def hears(self, heard: EdgeHeard) -> "asyncio.Task[Receipt]":
        return asyncio.ensure_future(self.joiner.hear(heard))

    def texts(self) -> list[str]:
        return [heard.text for heard in self.heard if isinstance(heard, MessageReceived)]


# ------------------------------------------------------------------ the rules


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        (said("a" * 4096, "1"), WAIT_S),
        (said("a" * 4046, "1"), WAIT_S),
        (said("a" * 4045, "1"), MOMENT_S),
        (said("a" * 2049, "1"), MOMENT_S),
        (said("a" * 2048, "1"), 0),
        (said("ok", "1"), 0),
        (said("/queue " + "a" * 4089, "1"), WAIT_S),
        (said("/stop " + "a" * 4090, "1"), 0),
        (said("/STOP@bot " + "a" * 4090, "1"), 0),
        (said("a" * 4096, "1", via="command"), 0),
        (
            said("a" * 4096, "1", attachments=(FileBlock(name="x", mime="text/plain", path="/x", size=1),)),
            0,
        ),
        (said("a" * 4000, "1", mentions_us=True), WAIT_S),
    ],
)
def test_only_what_may_have_a_rest_waits(message: MessageReceived, seconds: float) -> None:
    assert patience(message, RULES) == seconds


def test_length_is_measured_as_the_platform_does() -> None:
    assert patience(said("😀" * 2048, "1"), JoinRules(4096, Unit.UTF16)) == WAIT_S
    assert patience(said("😀" * 2048, "1"), JoinRules(4096)) == 0


@pytest.mark.parametrize(
    ("message", "more"),
    [
        (said("and so on", "2"), True),
        (said("/stop", "2"), False),
        (said("/new", "2"), False),
        (said("/etc/passwd is a file", "2"), True),
        (said("x", "2", quote=Quote(message_id=MessageId("0"))), False),
        (said("x", "2", mentions_us=True), False),
        (said("x", "2", mentions_us=True, sent_at=START + timedelta(seconds=1)), True),
        (said("x", "2", mentions_us=True, sent_at=START + timedelta(seconds=2)), False),
        (said("x", "2", via="button"), False),
        (said("x", "2", album="a"), False),
        (said("x", "1"), False),
        (said("x", "2", sent_at=START + timedelta(seconds=3)), True),
        (said("x", "2", sent_at=START + timedelta(minutes=3)), False),
    ],
)
def test_what_may_be_the_next_piece(message: MessageReceived, *, more: bool) -> None:
    assert goes_on((said("a" * 4096, "1", sent_at=START),), message) is more


@pytest.mark.parametrize(
    ("first", "rest", "text"),
    [
        ("a" * 4096, "b" * 900, "a" * 4096 + "b" * 900),
        ("a" * 4090, "b", "a" * 4090 + "\nb"),
        ("a" * 4089 + " ", "b", "a" * 4089 + " b"),
        ("a" * 4090, "\nb", "a" * 4090 + "\nb"),
    ],
)
def test_the_seam_gives_back_what_the_cut_took(first: str, rest: str, text: str) -> None:
    assert joined((said(first, "1"), said(rest, "2")), RULES).text == text


@pytest.mark.parametrize(
    ("first", "second", "more"),
    [("7", "7", True), ("7", None, True), ("7", "8", False), (None, "7", False)],
)
def test_C22_each_piece_may_reply_to_what_the_first_replies_to(
    first: str | None, second: str | None, *, more: bool
) -> None:
    """Some programs make each piece the reply, some the first alone."""

    def to(number: str | None) -> Quote | None:
        return None if number is None else Quote(message_id=MessageId(number))

    piece = said("a" * 4096, "1", quote=to(first))
    assert goes_on((piece,), said("x", "2", quote=to(second))) is more


def test_C22_a_mention_in_any_piece_is_one_of_the_whole() -> None:
    whole = joined((said("a" * 4096, "1"), said("and @us?", "2", mentions_us=True)), RULES)
    assert whole.mentions_us


# ------------------------------------------------------------------ in time


async def test_C22_a_text_that_was_cut_between_paragraphs_is_one_message() -> None:
    """The first piece is far shorter than the limit: programs cut where it reads best."""
    desk = Desk()
    first, rest = "one " * 600, "two " * 500
    pieces = [desk.hears(said(first.strip(), "1"))]
    await desk.clock.advance(0.056)
    pieces.append(desk.hears(said(rest.strip(), "2")))
    await asyncio.gather(*pieces)
    assert desk.texts() == [f"{first.strip()}\n{rest.strip()}"]


async def test_a_long_message_that_may_be_whole_waits_for_a_moment() -> None:
    desk = Desk()
    alone = desk.hears(said("a" * 3000, "1"))
    await desk.clock.advance(MOMENT_S - 0.01)
    assert desk.texts() == []
    await desk.clock.advance(0.02)
    assert desk.texts() == ["a" * 3000]
    await alone


async def test_C22_two_pieces_are_one_message_and_each_has_its_receipt() -> None:
    desk = Desk()
    first = desk.hears(said("a" * 4096, "1"))
    await desk.clock.advance(0.056)
    rest = desk.hears(said("b" * 900, "2"))
    await desk.clock.settle()
    assert desk.texts() == ["a" * 4096 + "b" * 900]
    assert desk.heard[0].message_id == "1"  # type: ignore[union-attr]
    assert ((await first).message_id, (await rest).message_id) == ("1", "2")


async def test_C22_a_command_keeps_its_meaning() -> None:
    desk = Desk()
    pieces = [desk.hears(said("/queue " + "a" * 4089, "1")), desk.hears(said("b" * 100, "2"))]
    await asyncio.gather(*pieces)
    assert desk.texts() == ["/queue " + "a" * 4089 + "b" * 100]


async def test_C22_a_short_message_does_not_wait() -> None:
    desk = Desk()
    await desk.hears(said("ok", "1"))
    assert desk.clock.waiting == 0
    assert desk.texts() == ["ok"]


async def test_C22_stop_is_never_delayed_and_comes_after_what_was_said_before_it() -> None:
    desk = Desk()
    first = desk.hears(said("a" * 4096, "1"))
    await desk.clock.settle()
    stop = desk.hears(said("/stop", "2"))
    await stop
    await first
    assert desk.texts() == ["a" * 4096, "/stop"]
    assert desk.clock.monotonic() == 0.0


async def test_C22_what_somebody_else_says_is_not_joined_and_does_not_wait() -> None:
    desk = Desk()
    first = desk.hears(said("a" * 4096, "1"))
    await desk.clock.settle()
    await desk.hears(said("b" * 10, "2", user="bob"))
    await desk.hears(said("c" * 10, "3", chat="other"))
    rest = desk.hears(said("d" * 10, "4"))
    await asyncio.gather(first, rest)
    assert desk.texts() == ["b" * 10, "c" * 10, "a" * 4096 + "d" * 10]


async def test_a_long_message_without_a_rest_waits_for_a_second_alone() -> None:
    desk = Desk()
    alone = desk.hears(said("a" * 4096, "1"))
    await desk.clock.advance(0.99)
    assert desk.texts() == []
    await desk.clock.advance(0.02)
    assert desk.texts() == ["a" * 4096]
    assert (await alone).message_id == "1"


async def test_each_full_piece_gives_the_next_its_second() -> None:
    desk = Desk()
    pieces = []
    for number in range(4):
        pieces.append(desk.hears(said(str(number) * 4096, f"{number}")))
        await desk.clock.advance(0.9)
    assert desk.texts() == []
    await desk.clock.advance(0.2)
    assert [len(text) for text in desk.texts()] == [4 * 4096]
    await asyncio.gather(*pieces)


async def test_there_is_an_end_to_joining() -> None:
    desk = Desk()
    pieces = [desk.hears(said("a" * 4096, str(number))) for number in range(MOST_PIECES + 1)]
    await desk.clock.advance(1.1)
    assert [len(text) // 4096 for text in desk.texts()] == [MOST_PIECES, 1]
    await asyncio.gather(*pieces)


async def test_what_comes_right_behind_a_stop_stays_behind_it() -> None:
    desk = Desk()
    tasks = [
        desk.hears(m) for m in (said("a" * 4096, "1"), said("/stop", "2"), said("x", "3"), said("y", "4"))
    ]
    await asyncio.gather(*tasks)
    assert [text[:5] for text in desk.texts()] == ["aaaaa", "/stop", "x", "y"]


@pytest.mark.parametrize(
    "news",
    [
        MessageEdited(
            message_id=MessageId("1"),
            origin=said("", "1").origin,
            author=Author(id="ann"),
            text="b",
            at=START,
        ),
        MessageDeleted(
            message_id=MessageId("1"),
            origin=Origin(platform="fake", chat_type=ChatType.GROUP, chat="lobby"),
            at=START,
        ),
        ChatMoved(platform="fake", old="lobby", new="hall", at=START),
    ],
)
async def test_what_an_edit_is_about_is_handed_in_before_it(news: EdgeHeard) -> None:
    desk = Desk()
    first = desk.hears(said("a" * 4096, "1"))
    await desk.clock.settle()
    await desk.hears(news)
    await first
    assert [heard.kind for heard in desk.heard] == ["message_received", news.kind]


async def test_R15_an_edit_of_a_piece_is_one_of_the_whole() -> None:
    """Else the rest would be lost with it."""
    desk = Desk()
    one, two = said("a" * 4096, "1"), said("b" * 900, "2")
    await asyncio.gather(desk.hears(one), desk.hears(two))

    async def edits(number: str, text: str, chat: str = "lobby") -> MessageEdited:
        edit = MessageEdited(
            message_id=MessageId(number),
            origin=said("", number, chat=chat).origin,
            author=Author(id="ann"),
            text=text,
            at=START,
        )
        await desk.hears(edit)
        heard = desk.heard[-1]
        assert isinstance(heard, MessageEdited)
        return heard

    first = await edits("1", "A" * 4096)
    assert (first.message_id, first.text) == ("1", "A" * 4096 + "b" * 900)
    second = await edits("2", "c")
    assert (second.message_id, second.text) == ("1", "A" * 4096 + "c")
    elsewhere = await edits("2", "x", chat="other")
    assert (elsewhere.message_id, elsewhere.text) == ("2", "x")


async def test_a_lost_connection_takes_its_pieces_along() -> None:
    desk = Desk()
    first = desk.hears(said("a" * 4096, "1"))
    await desk.clock.settle()
    first.cancel()
    await desk.clock.advance(5)
    assert desk.heard == []
    assert desk.clock.waiting == 0
    again = [desk.hears(said("a" * 4096, "1")), desk.hears(said("b", "2"))]
    await asyncio.gather(*again)
    assert desk.texts() == ["a" * 4096 + "b"]


async def test_a_failure_reaches_everybody_who_waits() -> None:
    desk = Desk()
    desk.fails = EdgeError(ProblemKind.TRANSIENT, "the journal is full")
    pieces = [desk.hears(said("a" * 4096, "1")), desk.hears(said("b", "2"))]
    results = await asyncio.gather(*pieces, return_exceptions=True)
    assert results == [desk.fails, desk.fails]


async def test_where_nobody_cuts_nothing_waits() -> None:
    desk = Desk(rules=None)
    await desk.hears(said("a" * 100_000, "1"))
    assert desk.clock.waiting == 0


async def test_nothing_is_kept_of_what_was_handed_in() -> None:
    desk = Desk()
    for number in range(100):
        pieces = [desk.hears(said("a" * 4096, f"{number}")), desk.hears(said("/stop", f"s{number}"))]
        await asyncio.gather(*pieces)
    assert desk.joiner._held == {}
    assert desk.joiner._unbegun == {}
