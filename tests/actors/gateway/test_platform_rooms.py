"""What the rooms of an account are given: context for its edges, states for operators, wishes from them."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pykka import ActorDeadError

from actors.gateway.commands import COMMANDS
from actors.gateway.edge import Edge, EdgeContext, Hear
from actors.gateway.platform_control import PlatformControl, PlatformControlError
from actors.gateway.platform_rooms import HouseLinks, Platforms
from actors.gateway.registry import Limits, PlatformEntry, Registry
from actors.runtime import ActorSystem
from messages.delivery import ConnectionAsked, PlatformConnected, PlatformLost
from messages.gateway import Acceptance, Author, ChatType, EdgeHeard, MessageReceived, Origin, Receipt
from messages.ids import MessageId
from messages.platforms import PlatformAsked
from messages.settings import PlatformSettings
from store.memory_store import MemoryJournal
from store.readers import Rows
from tests.fakes.clock import START, ManualClock
from tests.fakes.platform import FakeChats, FakeEdge


class NoOptions(BaseModel):
    """Takes none."""


class Hanging(FakeEdge):
    """Connects for ever."""

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        await asyncio.Event().wait()


class Lobby:
    """A platform of the test's own, and a house around its rooms."""

    def __init__(self, system: ActorSystem, clock: ManualClock, tmp_path: Path) -> None:
        self.hangs = 0
        """So many of the next edges never connect."""
        self.contexts: list[EdgeContext] = []
        self.edges: list[FakeEdge] = []
        self.told: list[tuple[str, Any]] = []
        self.ups: list[tuple[str, bool]] = []
        self.reconnects: list[str] = []
        self.incidents: list[tuple[str, str, str]] = []
        registry = Registry()
        registry.register(PlatformEntry("lobby", self._edge, NoOptions, Limits(4096, joins_at=4096)))
        settings = {
            "lobby": PlatformSettings(),
            "lobby/second": PlatformSettings(),
            "lobby/off": PlatformSettings(enabled=False),
            "nowhere": PlatformSettings(),
        }
        self.platforms = Platforms.prepare(settings, {}, registry)
        self.links = HouseLinks(
            system=system,
            journal=MemoryJournal(clock),
            tell=lambda room, message: self.told.append((room, message)),
            tell_session=lambda _key, _ending: None,
            tell_delivery=lambda _message: None,
            hear=self._hear,
            on_incident=lambda *incident: self.incidents.append(incident),
            count=lambda _account, _outcome: None,
            draft_now=lambda _key: (0, ""),
            select=self._select,
            attachments=tmp_path / "attachments",
            count_reconnect=self.reconnects.append,
            on_up=lambda name, up: self.ups.append((name, up)),
            chance=lambda: 0.5,
        )

    def _edge(self, _options: Any, context: EdgeContext) -> Edge:
        self.contexts.append(context)
        self.edges.append(Hanging(FakeChats()) if self.hangs else FakeEdge(FakeChats()))
        self.hangs = max(0, self.hangs - 1)
        return self.edges[-1]

    async def _hear(self, heard: EdgeHeard) -> Receipt:
        assert isinstance(heard, MessageReceived)
        return Receipt(message_id=heard.message_id, session_key=None, acceptance=Acceptance.ACCEPTED)

    async def _select(self, _sql: str, params: Any, **_: Any) -> Rows:
        mine = params[:2] == ["lobby", "main"]
        return Rows((), (("hall", None, None, "m1", START),) if mine else ())

    def start(self, name: str) -> Any:
        return self.platforms.connections(self.links)[f"platform:{name}"]()


@pytest.fixture
def lobby(system: ActorSystem, clock: ManualClock, tmp_path: Path) -> Lobby:
    return Lobby(system, clock, tmp_path)


def message(message_id: str) -> MessageReceived:
    return MessageReceived(
        message_id=MessageId(message_id),
        origin=Origin(platform="lobby", chat_type=ChatType.GROUP, chat="hall", user="ann"),
        author=Author(id="ann"),
        text="hi",
        at=START,
    )


async def test_each_connection_has_a_context_of_its_own(lobby: Lobby, clock: ManualClock) -> None:
    lobby.start("lobby")
    await clock.settle()
    first = lobby.contexts[0]
    assert (first.platform, first.account) == ("lobby", "main")
    assert first.files == lobby.links.attachments / "lobby"
    assert [command.name for command in first.commands] == [command.name for command in COMMANDS]
    assert first.last_heard["hall"].message_id == "m1"
    await lobby.edges[0].hears(message("m2"))
    lobby.edges[0].loses_connection()
    await clock.advance(1)
    assert lobby.contexts[1].last_heard["hall"].message_id == "m2"
    assert lobby.reconnects == ["lobby"]
    assert [what for _, what, _ in lobby.incidents] == ["fell", "rose"]


async def test_accounts_share_neither_folder_nor_marks(lobby: Lobby, clock: ManualClock) -> None:
    lobby.start("lobby/second")
    await clock.settle()
    (context,) = lobby.contexts
    assert context.files == lobby.links.attachments / "lobby-second"
    assert context.last_heard == {}


async def test_trouble_is_a_state_and_the_outbox_is_told_of_connections(
    lobby: Lobby, clock: ManualClock
) -> None:
    ref = lobby.start("lobby")
    await clock.settle()
    lobby.contexts[0].trouble("somebody else polls")
    assert lobby.platforms.states["lobby"] == "degraded: somebody else polls"
    assert lobby.platforms.degraded() == ("platform:lobby (somebody else polls)",)
    assert lobby.ups[-1] == ("lobby", True)
    ref.tell(ConnectionAsked())
    await clock.settle()
    told = [type(message) for room, message in lobby.told if room == "outbox:lobby"]
    assert told[0] is PlatformLost
    assert told[-1] is PlatformConnected


def test_what_cannot_be_served_is_listed_with_the_reason(lobby: Lobby) -> None:
    async def nobody(_room: str, _asked: PlatformAsked) -> str:
        raise AssertionError

    states = {each.name: each.state for each in PlatformControl(lobby.platforms, nobody).states()}
    assert states["lobby"] == states["lobby/second"] == "waiting"
    assert states["lobby/off"] == "off"
    assert states["nowhere"].startswith("unusable: There is no platform 'nowhere'.")


@pytest.mark.parametrize(
    ("name", "why"),
    [("lobby/off", "off in the settings"), ("nowhere", "cannot be used"), ("other", "There are: lobby")],
)
async def test_a_wish_that_cannot_be_granted_says_why(lobby: Lobby, name: str, why: str) -> None:
    async def nobody(_room: str, _asked: PlatformAsked) -> str:
        raise AssertionError

    with pytest.raises(PlatformControlError, match=why):
        await PlatformControl(lobby.platforms, nobody).wish(name, "pause", by="a test")


@pytest.mark.parametrize("error", [ActorDeadError("gone"), TimeoutError()])
async def test_an_actor_that_does_not_answer_is_no_mystery(lobby: Lobby, error: Exception) -> None:
    async def silent(_room: str, _asked: PlatformAsked) -> str:
        raise error

    with pytest.raises(PlatformControlError, match="Try again in a moment"):
        await PlatformControl(lobby.platforms, silent).wish("lobby", "restart", by="a test")


async def test_one_account_that_hangs_at_its_start_holds_up_no_other(
    lobby: Lobby, clock: ManualClock
) -> None:
    lobby.hangs = 1
    lobby.start("lobby")
    lobby.start("lobby/second")
    await clock.settle()
    assert lobby.platforms.states == {"lobby": "waiting", "lobby/second": "connected"}
    await clock.advance(32)
    assert lobby.platforms.states == {"lobby": "connected", "lobby/second": "connected"}
