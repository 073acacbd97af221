"""A platform's actor: the connection comes back for ever, what is heard is told, what fails is classified."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors.gateway.edge import EdgeError, Hear
from actors.gateway.joining import JoinRules
from actors.gateway.marks import Marks
from actors.gateway.outbox import place_of
from actors.redaction import Redactor
from messages import delivery as d
from messages.gateway import Acceptance, Author, ChatType, MessageReceived, Origin
from messages.ids import MessageId
from messages.platforms import PlatformAsked
from tests.actors.gateway.post_office import PostOffice, say
from tests.fakes.platform import FakeChats, FakeEdge


class Hopeless(FakeEdge):
    """Asks for a hand at each connection."""

    connections = 0

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        type(self).connections += 1
        await asyncio.sleep(0)
        raise EdgeError(d.ProblemKind.NEEDS_HUMAN, "give me a new token")


class Hanging(FakeEdge):
    """Connects for ever."""

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        await asyncio.Event().wait()


class Stubborn(FakeEdge):
    """Does not let itself be cut; what it hears later it hands in all the same."""

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        self._hear = hear
        connected()
        self.released = asyncio.Event()
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                continue


class Crashing(FakeEdge):
    """Has a mistake in what it does with its connection."""

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        connected()
        await asyncio.sleep(0)
        raise KeyError("a mistake of the edge's own")


class Broken(FakeChats):
    """Fails in a way that no edge should."""

    def take(self, post: d.Post) -> str:
        self.calls += 1
        if self.calls == 1:
            raise KeyError("a mistake of the edge's own")
        return "post-1"


@asynccontextmanager
async def office(**links: Any) -> AsyncIterator[PostOffice]:
    it = PostOffice()
    it.platform_links = links
    try:
        await it.start()
        yield it
    finally:
        await it.crash()


def message(chat: str = "lobby", message_id: str = "m1", text: str = "hi") -> MessageReceived:
    return MessageReceived(
        message_id=MessageId(message_id),
        origin=Origin(platform="fake", chat_type=ChatType.GROUP, chat=chat, user="ann"),
        author=Author(id="ann"),
        text=text,
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
        assert [what for what, _ in it.incidents] == ["fell", "rose"]


async def test_waits_grow_and_it_never_gives_up() -> None:
    async with office() as it:
        it.reachable = False
        it.edge.loses_connection()
        await it.passes(24 * 3600)
        assert it.states[-1].startswith("degraded")
        assert len(it.states) < 24 * 60 + 200
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
        assert [what for what, _ in it.incidents] == ["fell", "needs_human"]
        await it.passes(3600)
        assert [what for what, _ in it.incidents] == ["fell", "needs_human"]
        assert it.makes.connections <= 1 + 3600 // 300 + 1


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


# ------------------------------------------------------------------ hanging, deaf, stubborn


async def test_a_first_connection_that_hangs_is_cut_and_tried_anew() -> None:
    it = PostOffice()
    it.makes = Hanging
    it.platform_links = {"start_timeout_s": 30.0}
    try:
        await it.start()
        await it.passes(29)
        it.makes = FakeEdge
        assert it.states[-1] == "waiting"
        await it.passes(3)
        assert it.states[-1] == "connected"
        assert it.incidents[0] == ("fell", "transient: no connection within 30 s")
    finally:
        await it.crash()


async def test_a_connection_that_is_there_and_deaf_is_made_anew() -> None:
    async with office(quiet_probe_s=300.0) as it:
        first = it.edge
        first.deaf = True
        await it.passes(299)
        assert first.probes == 0
        await it.passes(3)
        assert it.edge is not first
        assert it.incidents[0] == ("fell", "transient: connected but deaf: no answer to the probe")
        assert it.states[-1] == "connected"


async def test_a_probe_that_hangs_counts_as_failed() -> None:
    class Silent(FakeEdge):
        async def probe(self) -> None:
            await asyncio.Event().wait()

    it = PostOffice()
    it.makes = Silent
    try:
        await it.start()
        first = it.edge
        await it.passes(300 + 10 + 1)
        assert it.edge is not first
        assert "no answer to a probe within 10 s" in it.incidents[0][1]
    finally:
        await it.crash()


async def test_a_connection_that_is_alive_is_left_alone() -> None:
    async with office(quiet_probe_s=300.0) as it:
        first = it.edge
        await it.passes(24 * 3600)
        assert it.edge is first
        assert first.probes == 24 * 12
        assert it.incidents == []


async def test_what_is_heard_puts_the_probe_off() -> None:
    async with office(quiet_probe_s=300.0) as it:
        for number in range(20):
            await it.passes(200)
            await it.edge.hears(message(message_id=f"m{number}"))
        assert it.edge.probes == 0


async def test_an_edge_that_does_not_let_itself_be_cut_is_left_behind() -> None:
    it = PostOffice()
    it.makes = Stubborn
    await it.start()
    first = it.edge
    assert isinstance(first, Stubborn)
    try:
        first.deaf = True
        it.makes = FakeEdge
        await it.passes(300 + 5 + 1)
        assert it.edge is not first
        assert it.states[-1] == "connected"
        assert [what for what, _ in it.incidents] == ["blocked", "fell", "rose"]
        with pytest.raises(EdgeError):
            await first.hears(message())
        first.released.set()
        await it.settle()
        assert it.states[-1] == "connected"
    finally:
        first.released.set()
        await it.crash()


async def test_trouble_shows_while_the_connection_goes_on() -> None:
    async with office() as it:
        it.tell_trouble("another program polls with this token")
        assert it.states[-1] == "degraded: another program polls with this token"
        await it.say(say("d1", "hello"))
        assert it.chats.texts() == ["hello"]
        it.tell_trouble("another program polls with this token")
        it.tell_trouble("")
        assert it.states[-1] == "connected"
        assert [what for what, _ in it.incidents] == ["degraded", "recovered"]


async def test_a_crash_of_an_edge_ends_its_actor_alone() -> None:
    it = PostOffice()
    it.makes = Crashing
    try:
        await it.start()
        await it.settle()
        assert not it.platform.is_alive()
        assert it.outbox.is_alive()
        assert it.states[-1] == "waiting"
    finally:
        await it.crash()


# ------------------------------------------------------------------ operators


async def ask(it: PostOffice, what: Any) -> Any:
    answer = it.platform.ask(PlatformAsked(what=what, by="a test"), block=False)
    await it.settle()
    return await answer


async def test_a_restart_is_made_at_once_and_is_no_incident() -> None:
    async with office() as it:
        first = it.edge
        assert await ask(it, "restart") == "waiting"
        await it.settle()
        assert it.edge is not first
        assert it.states[-1] == "connected"
        assert it.incidents == []


async def test_a_restart_ends_the_wait_for_the_next_try() -> None:
    async with office() as it:
        it.makes = Hopeless
        it.edge.loses_connection()
        await it.passes(10)
        it.makes = FakeEdge
        await ask(it, "restart")
        await it.settle()
        assert it.states[-1] == "connected"


async def test_what_is_paused_stays_so_over_a_restart_of_the_process_until_it_is_resumed() -> None:
    it = PostOffice()
    it.platform_links = {"journal": it.journal}
    try:
        await it.start()
        first = it.edge
        assert await ask(it, "pause") == "paused"
        await it.say(say("d1", "hello"))
        await it.passes(3600)
        assert it.chats.calls == 0
        await it.restart()
        assert it.states[-1] == "paused"
        await it.passes(3600)
        assert it.edge is first
        assert await ask(it, "restart") == "paused"
        assert await ask(it, "resume") == "waiting"
        await it.passes(1)
        assert it.states[-1] == "connected"
        assert it.chats.texts() == ["hello"]
        assert it.incidents == []
        await it.restart()
        assert it.states[-1] == "connected"
    finally:
        await it.crash()


async def test_pause_and_resume_may_come_as_fast_as_they_like() -> None:
    async with office() as it:
        for what in ("pause", "resume", "restart", "restart", "pause", "pause", "resume", "resume"):
            it.platform.tell(PlatformAsked(what=what, by="a test"))
        await it.settle()
        await it.passes(1)
        assert it.states[-1] == "connected"
        await it.say(say("d1", "hello"))
        assert it.chats.texts() == ["hello"]


# ------------------------------------------------------------------ what was heard last, and pieces


async def test_marks_are_read_before_the_first_connection_and_move_with_what_is_durable() -> None:
    marks = Marks("fake", "main")
    async with office(marks=marks) as it:
        await it.edge.hears(message(message_id="m7"))
        assert marks.snapshot()[str(d.Place(chat="lobby"))].message_id == "m7"


async def test_C22_pieces_are_joined_before_the_desk() -> None:
    async with office(joins=JoinRules(4096)) as it:
        first = asyncio.ensure_future(it.edge.hears(message(text="a" * 4096)))
        await it.passes(0.056)
        rest = asyncio.ensure_future(it.edge.hears(message(message_id="m2", text="b" * 900)))
        await asyncio.gather(first, rest)
        assert [heard.text for heard in it.heard] == ["a" * 4096 + "b" * 900]


# ------------------------------------------------------------------ A13: one chat's wait holds nobody


async def test_A13_a_limit_of_one_chat_holds_up_no_other() -> None:
    async with office() as it:
        it.chats.will_fail(d.ProblemKind.RATE_LIMITED, retry_after_s=117.0)
        await it.say(say("a", "to A", chat="A"))
        began = it.clock.monotonic()
        await it.passes(1)
        await it.say(say("b", "to B", chat="B"))
        assert it.chats.texts() == ["to B"]
        receipt = await it.edge.hears(message(chat="B"))
        assert receipt.acceptance is Acceptance.ACCEPTED
        await it.passes(115)
        assert it.chats.texts("A") == []
        await it.passes(2)
        assert it.chats.texts("A") == ["to A"]
        assert it.clock.monotonic() - began >= 117


async def test_A13_an_edge_that_waits_inside_a_call_holds_up_no_other_chat() -> None:
    async with office() as it:
        it.edge.holds = True
        await it.say(say("a", "to A", chat="A"))
        it.edge.holds = False
        await it.say(say("b", "to B", chat="B"))
        assert it.chats.texts() == ["to B"]
        assert (await it.edge.hears(message(chat="B"))).acceptance is Acceptance.ACCEPTED
        it.edge.release()
        await it.settle()
        assert it.chats.texts("A") == ["to A"]


# ------------------------------------------------------------------ X14: no secret in what is told of a failure


def leaking(error: Exception) -> type[FakeEdge]:
    """Return an edge whose library puts the address, and the token in it, into its errors."""

    class Leaking(FakeEdge):
        async def say(self, post: d.Post) -> str:
            raise error

        def loses_connection(self) -> None:
            self._end.set_exception(EdgeError(d.ProblemKind.NEEDS_HUMAN, f"{LEAK}/getMe: 401"))

    return Leaking


LEAK = "https://x.org/bot123456:AAsecret"


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(f"POST {LEAK}/send: 502"),
        EdgeError(d.ProblemKind.REFUSED, f"POST {LEAK}/send: 400"),
        EdgeError(d.ProblemKind.TARGET_GONE, f"POST {LEAK}/send: 403"),
    ],
)
async def test_X14_no_secret_of_an_error_is_written_down_or_said(error: Exception) -> None:
    async with office(clean=Redactor(["123456:AAsecret"]).clean) as it:
        it.makes = leaking(error)
        await it.restart()
        await it.say(say("d1", "hello"))
        await it.passes(120)
        it.edge.loses_connection()
        await it.passes(120)
        written = "".join(fact.model_dump_json() for fact in it.facts())
        assert "https://x.org/bot***" in written
        assert "AAsecret" not in written
        assert any("https://x.org/bot***" in state for state in it.states)
        assert "AAsecret" not in repr(it.states)
