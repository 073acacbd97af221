"""A whole house without a network: real actors and rules, a journal in memory, a scripted model, a clock in hand.

async with Stage() as stage:
    stage.models.will_say("hello")
    await stage.says("hi")
    assert await stage.told() == ["hello"]
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self, TypeVar

import pykka

from actors.gateway.access import AccessBook, Homes
from actors.gateway.access_actor import AccessRoom
from actors.gateway.actor import Arrived, DeskLinks, FrontDesk
from actors.gateway.delivery import Delivery
from actors.gateway.door import Door, DoorLinks
from actors.gateway.gating import Gate
from actors.gateway.pairing import ClaimFile
from actors.gateway.session_key import key_for, key_of
from actors.gateway.transition import Knowledge
from actors.lifecycle import Lifecycle
from actors.redaction import Redactor
from actors.runtime import ActorSystem
from actors.session import facts as f
from actors.session.actor import Services
from actors.session.asking import Asker
from actors.session.decision import Rules
from actors.session.directory import Roster, Route, SessionDirectory
from actors.session.live import LiveHub
from actors.session.profiles import Profile, Profiles
from actors.session.tool_border import ToolBorder
from actors.tool.actor import ToolWorkshop
from actors.tool.catalogue import Catalogue
from actors.tool.spec import ToolSpec
from messages.delivery import DESK
from messages.gateway import (
    Author,
    ChatType,
    MessageReceived,
    Origin,
    Receipt,
    Say,
    SayingFailed,
    SayingSucceeded,
)
from messages.ids import MessageId, SessionKey, StreamId
from messages.session import ConfirmationGiven, StopAsked
from messages.settings import AccessSettings, BusyPolicy, PlatformSettings, RouteSettings, ToolSettings
from store.journal import Recorded
from store.memory_store import MemoryJournal
from tests.fakes.clock import ManualClock
from tests.fakes.model import FakeModels

ANN = Origin(platform="discord", chat_type=ChatType.DM, chat="ann", user="ann")
F = TypeVar("F")
OPEN = {
    "discord": PlatformSettings(
        access=AccessSettings(users=("*",), answer="always", user_per_minute=10_000, chat_per_minute=10_000)
    )
}
"""Everybody may talk to us, and everything is answered."""
QUEUE = Rules(busy_dm=BusyPolicy.QUEUE)


class FakePlatform:
    """A platform's edge: takes what is to be said, and gives receipts when it is told to."""

    def __init__(self) -> None:
        self.said: list[Say] = []
        self.receives = True
        self._tell_delivery: Callable[[SayingSucceeded], None] | None = None
        self._clock: ManualClock | None = None

    def connect(self, tell_delivery: Callable[[SayingSucceeded], None], clock: ManualClock) -> None:
        self._tell_delivery, self._clock = tell_delivery, clock

    def say(self, say: Say) -> None:
        assert self._tell_delivery is not None
        assert self._clock is not None
        self.said.append(say)
        if self.receives:
            receipt = SayingSucceeded(
                delivery_id=say.delivery_id, receipt=f"post-{len(self.said)}", at=self._clock.now()
            )
            self._tell_delivery(receipt)

    def texts(self) -> list[str]:
        return [part.text for say in self.said for part in say.parts]


class Stage:
    """Everything between a platform's edge and the model, for one test."""

    def __init__(
        self,
        rules: Rules = QUEUE,
        *,
        tools: Iterable[ToolSpec] = (),
        settings: ToolSettings | None = None,
        sleep_after_s: float = 600.0,
        most_awake: int = 20_000,
        secrets: Iterable[str] = (),
        platforms: Mapping[str, PlatformSettings] = OPEN,
        routes: tuple[RouteSettings, ...] = (),
    ) -> None:
        self.rules = rules
        self.tools = tuple(tools)
        self.settings = settings or ToolSettings(allow=("*",))
        self.platforms = platforms
        self.routes = routes
        self.sleep_after_s = sleep_after_s
        self.most_awake = most_awake
        self.clock = ManualClock()
        self.models = FakeModels()
        self.journal = MemoryJournal(self.clock)
        self.platform = FakePlatform()
        self.redactor = Redactor(secrets)
        self.incidents: list[tuple[str, str, str]] = []
        self.lives = 0
        self.edge_says_refusals = self.edge_says_natively = False
        self._said = 0
        self._folder = TemporaryDirectory(prefix="callboard-stage-")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.power_off()
        self._folder.cleanup()

    async def start(self) -> None:
        """Begin a life of the process over the same journal."""
        self.lives += 1
        self.system = ActorSystem(self.clock)
        self.sessions: pykka.ActorRef[SessionDirectory]
        self.hub, self.roster, self.lifecycle = LiveHub(), Roster(), Lifecycle(self.system)
        folder = Path(self._folder.name)
        (folder / "workspace").mkdir(exist_ok=True)
        self.workspace = folder / "workspace"
        catalogue = Catalogue(self.tools, self.settings, self.workspace, folder / "results")
        asker = Asker(
            models=self.models,
            profiles=Profiles(Profile("main", "Be helpful.", catalogue)),
            hub=self.hub,
            redactor=self.redactor,
            clock=self.clock,
            chance=lambda: 0.5,
            max_output_tokens=1000,
        )
        border = ToolBorder(self.redactor, self.hub, self._tell_sessions)
        self.workshop = ToolWorkshop.start(
            self.system, catalogue, border.finished, border.progressed, folder / "results"
        )
        book = AccessBook.of_settings(self.platforms, self.routes)
        self.home = folder
        access = await AccessRoom.open(self.journal, book, ClaimFile(folder))
        self.ledger = access.ledger
        gate = Gate(self.ledger, frozenset())
        self.delivery = Delivery.start(
            self.system,
            dict.fromkeys(self.platforms, gate.following.watching(self.platform.say, self.clock.now)),
            self._tell_ending,
            homes=Homes(self.ledger, self.platforms),
            posted_to=access.posted_to,
        )
        self.platform.connect(self.delivery.tell, self.clock)
        services = Services(
            journal=self.journal,
            asker=asker,
            hub=self.hub,
            lifecycle=self.lifecycle,
            count=lambda facts: None,
            rules=self.rules,
            life=f"life-{self.lives}",
            tell_workshop=self.workshop.tell,
            tell_delivery=self.delivery.tell,
        )
        self.sessions = SessionDirectory.start(
            self.system,
            services,
            self.roster,
            sleep_after_s=self.sleep_after_s,
            most_awake=self.most_awake,
            chance=lambda: 0.5,
            on_incident=lambda *incident: self.incidents.append(incident),
        )
        self.access = access.start(self.system, self.sessions.tell, self._turned_away)
        self.desk = FrontDesk.start(
            self.system,
            Knowledge(self.models.resolve, self.models.known, lambda: "", lambda: ""),
            self.redactor,
            gate,
            DeskLinks(self.sessions.tell, self.access.tell, self._turned_away),
        )
        links = DoorLinks(
            hub=self.hub,
            clock=self.clock,
            tell_front_desk=self.desk.tell,
            ask_front_desk=lambda message: self.desk.ask(message, block=False),
            ask_access=lambda message: self.access.ask(message, block=False),
            tell_sessions=self._tell_sessions,
            tell_delivery=self.delivery.tell,
            says_refusals=lambda _, *, native: (
                self.edge_says_refusals or (native and self.edge_says_natively)
            ),
        )
        self.door = Door(self.ledger, links)
        self.door.open = True
        await self.clock.settle()

    async def power_off(self) -> None:
        """End this life as a crash does: nothing more is written, nothing is finished."""
        self.journal_gate(open_=True)
        await self.lifecycle.close()
        await self.system.stop_all(timeout_s=5.0)

    def journal_gate(self, *, open_: bool) -> None:
        if open_:
            self.journal.release()
        else:
            self.journal.hold()

    async def restart(self) -> None:
        """Crash and begin anew."""
        self.system.stopping = True
        await self.power_off()
        await self.start()

    # ------------------------------------------------------------------ people

    def message(self, text: str, origin: Origin = ANN, message_id: str = "") -> MessageReceived:
        self._said += 1
        return MessageReceived(
            message_id=MessageId(message_id or f"m{self._said}"),
            origin=origin,
            author=Author(id=origin.user or "ann", name="Ann"),
            text=text,
            can_confirm=False,
            at=self.clock.now(),
        )

    async def says(self, text: str, origin: Origin = ANN, message_id: str = "") -> Receipt:
        """Say something and see what became of it at the door."""
        message = self.message(text, origin, message_id)
        return await self.receipt_of(message)

    def hands_in(self, message: MessageReceived) -> SessionKey:
        """Hand in a message, as the door does, and wait for nothing."""
        key = key_for(message.origin, self.ledger.book)
        self.desk.tell(Arrived(key=key, heard=message))
        return key

    async def receipt_of(self, message: MessageReceived) -> Receipt:
        """Hand in a message and see what became of it at the door."""
        receipt = self.hub.expect(key_for(message.origin, self.ledger.book), message.message_id)
        self.hands_in(message)
        async with asyncio.timeout(20):
            await receipt
        await self.settle()
        return receipt.result()

    async def presses_stop(self, origin: Origin = ANN) -> None:
        self.sessions.tell(Route(key_of(origin), StopAsked(at=self.clock.now())))
        await self.settle()

    async def confirms(self, call_id: str, *, yes: bool, origin: Origin = ANN) -> None:
        given = ConfirmationGiven(call_id=call_id, yes=yes, by="ann", at=self.clock.now())  # type: ignore[arg-type]
        self.sessions.tell(Route(key_of(origin), given))
        await self.settle()

    async def settle(self) -> None:
        """Let everything that can happen without time passing happen."""
        for _ in range(5):
            await self.clock.settle()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait for what real threads or processes do; a test that waits for ever fails by its time limit."""
        async with asyncio.timeout(30):
            while not true():
                await asyncio.sleep(0.005)

    # ------------------------------------------------------------------ what is true

    async def facts(self, origin: Origin = ANN) -> list[f.SessionFact]:
        stream = StreamId(f"session:{key_of(origin)}")
        recorded: tuple[Recorded, ...] = await self.journal.read(stream)
        return [r.fact for r in recorded]  # type: ignore[misc]

    async def of_kind(self, kind: type[F], origin: Origin = ANN) -> list[F]:
        return [fact for fact in await self.facts(origin) if isinstance(fact, kind)]

    def key(self, origin: Origin = ANN) -> SessionKey:
        return key_of(origin)

    def state(self, origin: Origin = ANN) -> str:
        return self.hub.now(key_of(origin))[0].state

    def requests(self) -> list[str]:
        """What the model was asked, a text a request: roles and texts of all entries."""
        return [
            "\n".join(f"{e.role}: {e.model_dump_json()}" for e in request.entries)
            for request in self.models.requests
        ]

    # ------------------------------------------------------------------ wiring

    def _tell_sessions(self, route: Route) -> None:
        self.sessions.tell(route)

    def _tell_ending(self, key: SessionKey, ending: SayingSucceeded | SayingFailed) -> None:
        if not key.startswith(DESK):
            self._tell_sessions(Route(key, ending))

    def _turned_away(self, receipt: Receipt) -> None:
        if receipt.session_key is not None:
            self.hub.acknowledge(receipt.session_key, receipt)
