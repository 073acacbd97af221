"""Everything between a session and a chat, for one test: real actors, a journal in memory, a platform in memory."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pykka

from actors.gateway.delivery import Delivery
from actors.gateway.edge import EdgeError
from actors.gateway.outbox_actor import OutboxActor, OutboxLinks
from actors.gateway.parts import OutboxRules
from actors.gateway.platform_actor import PlatformActor, PlatformLinks
from actors.runtime import ActorSystem
from messages import delivery as d
from messages.base import Message
from messages.gateway import (
    Acceptance,
    ChatType,
    EdgeHeard,
    MessageReceived,
    Origin,
    Part,
    Receipt,
    Say,
    SayingFailed,
    SayingSucceeded,
)
from messages.ids import DeliveryId, MessageId, SessionKey, StreamId
from messages.system import IncidentHappened
from store.journal import JournalUnavailableError, Recorded
from store.memory_store import MemoryJournal
from tests.fakes.clock import ManualClock
from tests.fakes.platform import FakeChats, FakeEdge

STREAM = StreamId("outbox:fake:main")


def say(delivery: str, *texts: str, chat: str = "lobby", **more: Any) -> Say:
    origin = Origin(platform="fake", chat_type=more.pop("chat_type", ChatType.GROUP), chat=chat, user="ann")
    return Say(
        delivery_id=DeliveryId(delivery),
        session_key=SessionKey(f"session of {chat}"),
        origin=origin,
        parts=tuple(Part(text=text) for text in texts),
        reply_to=MessageId("m1"),
        **more,
    )


class CountingJournal(MemoryJournal):
    """Says how many appends it took, and can have the power cut at any of them."""

    def __init__(self, clock: ManualClock, fuse: "Fuse") -> None:
        super().__init__(clock)
        self.appends = 0
        self._cut = fuse

    async def append(
        self, stream: StreamId, expected: int, facts: Sequence[Message], *, owing: bool = False
    ) -> tuple[Recorded, ...]:
        self._cut.burn("before an append")
        recorded = await super().append(stream, expected, facts, owing=owing)
        self.appends += 1
        self._cut.burn("after an append, before anybody knows")
        return recorded


class Fuse:
    """Cuts the power at the n-th thing that touches the world; from then on nothing works until `mend`."""

    def __init__(self, *at: int) -> None:
        self._at = list(at)
        self._burnt = 0
        self.out = ""

    def burn(self, what: str) -> None:
        self._burnt += 1
        if not self.out and self._at and self._burnt >= self._at[0]:
            self._at.pop(0)
            self.out = what
        if self.out:
            raise JournalUnavailableError(f"the power is off {self.out}")

    def mend(self) -> None:
        self.out, self._burnt = "", 0

    def lay(self, at: int) -> None:
        """Cut the power at the `at`-th thing from now on."""
        self._at, self._burnt = [at], 0


class FusedChats(FakeChats):
    """A platform whose caller may lose its power before and after it posts."""

    def __init__(self, fuse: Fuse, *, keys: bool) -> None:
        super().__init__(keys=keys)
        self._cut = fuse

    def take(self, post: d.Post) -> str:
        self._cut.burn("before a call")
        receipt = super().take(post)
        self._cut.burn("after a call, before its answer")
        return receipt


class PostOffice:
    """`start` begins a life, `crash` ends it; the journal and the chats outlive both."""

    def __init__(self, rules: OutboxRules | None = None, fuse: Fuse | None = None) -> None:
        self.rules = rules or OutboxRules()
        self.clock = ManualClock()
        self.fuse = fuse or Fuse()
        self.journal = CountingJournal(self.clock, self.fuse)
        self.chats = FusedChats(self.fuse, keys=self.rules.idempotency_key)
        self.told: list[SayingSucceeded | SayingFailed] = []
        self.incidents: list[tuple[str, str]] = []
        self.states: list[str] = []
        self.drafts: dict[DeliveryId, d.DraftStands] = {}
        self.views: list[d.ViewShown] = []
        self.load = 0
        self.counted: list[str] = []
        self.reachable = True
        self.makes: type[FakeEdge] = FakeEdge
        self.platform_links: dict[str, Any] = {}
        """What else the platform's actor is given."""
        self.outbox_links: dict[str, Any] = {}
        """What else the outbox is given."""
        self.heard: list[MessageReceived] = []
        self.edge: FakeEdge

    async def start(self) -> None:
        self.system = ActorSystem(self.clock)
        self.outbox: pykka.ActorRef[OutboxActor]
        self.platform: pykka.ActorRef[PlatformActor]
        self.delivery: pykka.ActorRef[Delivery] = Delivery.start(
            self.system,
            {"fake": self._to_outbox},
            self._told,
            homes={"fake": "home"},
        )
        self.start_outbox()
        self.platform = PlatformActor.start(self.system, "fake", self._platform_links())
        await self.settle()

    def start_outbox(self) -> None:
        links = OutboxLinks(
            journal=self.journal,
            tell_platform=self._to_platform,
            tell_session=self._told,
            tell_delivery=self.delivery.tell,
            on_incident=self._incident,
            chance=lambda: 0.999,
            count=self.counted.append,
            on_load=self._loaded,
            on_drafts=self._drafted,
            **self.outbox_links,
        )
        self.outbox = OutboxActor.start(self.system, "fake", self.rules, links, on_crash=lambda crashed: None)

    def _to_outbox(self, message: Message) -> None:
        self.outbox.tell(message)  # the one that lives now

    def _to_platform(self, message: Message) -> None:
        self.platform.tell(message)

    def _told(self, key: SessionKey, ending: SayingSucceeded | SayingFailed) -> None:
        if not self.fuse.out:
            self.told.append(ending)

    def _drafted(self, drafts: Mapping[DeliveryId, d.DraftStands]) -> None:
        self.drafts = dict(drafts)

    def _incident(self, what: str, detail: str) -> None:
        """Note it, if it is one that the diary takes."""
        heard = {"life": "l", "child": "fake", "what": what, "detail": detail, "at": self.clock.now()}
        IncidentHappened.model_validate(heard)
        self.incidents.append((what, detail))

    def _loaded(self, load: int) -> None:
        self.load = load

    def _platform_links(self) -> PlatformLinks:
        return PlatformLinks(
            edge=self._new_edge,
            hear=self._hear,
            tell_outbox=self._to_outbox,
            tell_live=self.views.append,
            chance=lambda: 0.999,
            on_incident=self._incident,
            on_state=self.states.append,
            **self.platform_links,
        )

    def _new_edge(self, trouble: Callable[[str], None]) -> FakeEdge:
        self.tell_trouble = trouble
        if not self.reachable:
            return Unreachable(self.chats)
        self.edge = self.makes(self.chats)
        return self.edge

    async def _hear(self, message: EdgeHeard) -> Receipt:
        assert isinstance(message, MessageReceived)
        self.heard.append(message)
        return Receipt(message_id=message.message_id, session_key=None, acceptance=Acceptance.ACCEPTED)

    async def crash(self) -> None:
        """End this life: nothing more is written, nothing is finished."""
        self.system.stopping = True
        self.journal.release()
        await self.system.stop_all(timeout_s=5.0)

    async def restart(self, **rules: Any) -> None:
        await self.crash()
        self.rules = replace(self.rules, **rules)
        await self.start()

    async def say(self, *says: Say) -> None:
        for each in says:
            self.delivery.tell(each)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(4):
            await self.clock.settle()

    async def passes(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        await self.settle()

    def facts(self, kind: type[Message] = Message) -> list[Any]:
        return [fact for fact in self.journal.facts(STREAM) if isinstance(fact, kind)]

    def kinds(self) -> list[str]:
        return [fact.kind for fact in self.facts()]

    def delivered(self) -> list[str]:
        return [e.delivery_id for e in self.told if isinstance(e, SayingSucceeded)]

    def failed(self) -> list[str]:
        return [e.delivery_id for e in self.told if isinstance(e, SayingFailed)]


class Unreachable(FakeEdge):
    """A platform that nobody can connect to."""

    async def run(self, hear: Callable[..., Any], connected: Callable[[], None]) -> None:
        await asyncio.sleep(0)
        raise EdgeError(d.ProblemKind.TRANSIENT, "nobody there")
