"""A platform's actor: the connection comes back for ever, what is heard is told, what fails is classified."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from actors.gateway.edge import EdgeError, Hear
from actors.gateway.outbox import place_of
from messages import delivery as d
from messages.gateway import Acceptance, Author, ChatType, MessageReceived, Origin
from messages.ids import MessageId
from tests.actors.gateway.post_office import PostOffice, say
from tests.fakes.platform import FakeChats, FakeEdge


class Hopeless(FakeEdge):
    """Asks for a hand at each connection."""

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        await asyncio.sleep(0)
        raise EdgeError(d.ProblemKind.NEEDS_HUMAN, "give me a new token")


class Broken(FakeChats):
    """Fails in a way that no edge should."""

    def take(self, post: d.Post) -> str:
        self.calls += 1
        if self.calls == 1:
            raise KeyError("a mistake of the edge's own")
        return "post-1"


@asynccontextmanager
async def office() -> AsyncIterator[PostOffice]:
    it = PostOffice()
    try:
        await it.start()
        yield it
    finally:
        await it.crash()


def message(chat: str = "lobby") -> MessageReceived:
    return MessageReceived(
        message_id=MessageId("m1"),
        origin=Origin(platform="fake", chat_type=ChatType.GROUP, chat=chat, user="ann"),
        author=Author(id="ann"),
        text="hi",
        at=PostOffice().clock.now(),
    )


async def test_a_lost_connection_comes_back_soon() -> None:
    async with office() as it:
        first = it.edge
        first.loses_connection()
        await it.settle()
        await it.say(say("d1", "hello"))
        assert it.chats.calls == 0
        await it.passes(1)
        assert it.edge is not first
        assert it.chats.texts() == ["hello"]
        assert it.incidents == []


async def test_waits_grow_and_it_never_gives_up() -> None:
    async with office() as it:
        it.reachable = False
        it.edge.loses_connection()
        await it.passes(24 * 3600)
        assert it.states[-1].startswith("degraded")
        assert len(it.states) < 24 * 61
        it.reachable = True
        await it.passes(61)
        assert it.states[-1] == "connected"


async def test_who_needs_a_hand_is_degraded_at_once() -> None:
    async with office() as it:
        it.edge.loses_connection()
        await it.settle()
        it.makes = Hopeless
        await it.passes(1)
        assert it.states[-1] == "degraded: needs_human: give me a new token"
        assert [what for what, _ in it.incidents] == ["degraded"]


async def test_a_message_revives_its_chat_before_it_is_handed_in() -> None:
    async with office() as it:
        it.chats.will_fail(d.ProblemKind.TARGET_GONE)
        await it.say(say("d1", "hello"))
        receipt = await it.edge.hears(message())
        assert receipt.acceptance is Acceptance.ACCEPTED
        await it.say(say("d2", "again"))
        assert it.chats.texts() == ["again"]


async def test_what_is_heard_and_what_is_said_name_the_same_place() -> None:
    async with office() as it:
        await it.edge.hears(message())
        await it.settle()
        assert place_of(say("d1", "x")) == d.Place(chat="lobby")


async def test_a_mistake_of_an_edge_is_an_unknown_outcome_and_the_actor_lives() -> None:
    async with office() as it:
        it.edge.chats = Broken()
        await it.say(say("d1", "hello"))
        await it.passes(10)
        assert it.delivered() == ["d1"]
        assert it.facts(d.PartUnclear)[0].why.startswith("unknown: KeyError")
        assert it.platform.is_alive()


async def test_what_waited_too_long_for_the_platform_is_not_posted_any_more() -> None:
    async with office() as it:
        post = d.Post(
            delivery_id=say("d1", "x").delivery_id,
            part=1,
            of=1,
            attempt=1,
            key="ab" * 12,
            place=d.Place(chat="lobby"),
            body=d.PartText(text="late"),
        )
        it.platform.tell(d.SayPost(post=post, until=it.clock.monotonic() - 1))
        await it.settle()
        assert it.chats.texts() == []


@pytest.mark.parametrize("chat", ["", None])
async def test_a_chat_without_an_id_goes_by_its_user(chat: str | None) -> None:
    origin = Origin(platform="fake", chat_type=ChatType.DM, chat=chat, user="ann")
    assert place_of(say("d1", "x").model_copy(update={"origin": origin})) == d.Place(chat=None, user="ann")
