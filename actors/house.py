"""The house: every room started in order, handed what it needs, and stopped in reverse.

    store → chronicle → lifecycle and hooks → models → tools → delivery → sessions → front desk → console

Nothing here decides anything; it only says who knows whom. That is why it stays one
file when it grows: in two, nobody would see the order.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import structlog

from actors.bulletin import Bulletin
from actors.chronicle import Chronicle
from actors.clock import Clock
from actors.cluster.nursery import ThespianNursery
from actors.cluster.spares import Spares
from actors.console.server import ConsoleServer
from actors.console.token import token_of
from actors.errors import StartError
from actors.fuse import VARIABLE as FUSE
from actors.fuse import read_fuse, with_fuse
from actors.gateway.access import AccessBook, Homes
from actors.gateway.access_actor import AccessRoom
from actors.gateway.actor import Arrived, DeskLinks, FrontDesk, SuspectDone
from actors.gateway.aliases import Aliases
from actors.gateway.commands import COMMANDS
from actors.gateway.dead_letters import DeadLetterBox, LetterLinks
from actors.gateway.delivery import Delivery
from actors.gateway.desk import HouseDesk
from actors.gateway.door import Door, DoorLinks
from actors.gateway.erasure import Eraser
from actors.gateway.following import FOLLOWED_FOR
from actors.gateway.gating import Gate
from actors.gateway.intake import Intake
from actors.gateway.pairing import ClaimFile
from actors.gateway.platform_control import ANSWER_S, PlatformControl
from actors.gateway.platform_rooms import HouseLinks, Platforms
from actors.gateway.sending import Sender
from actors.gateway.transition import Knowledge
from actors.hooks import install_hooks
from actors.lifecycle import Lifecycle
from actors.metrics import Metrics
from actors.redaction import Redactor
from actors.retention import RetentionActor
from actors.search import SearchActor
from actors.session.actor import Services
from actors.session.asking import Asker
from actors.session.directory import Roster, Route, SessionDirectory
from actors.session.live import LiveHub
from actors.session.models.directory import ModelDirectory
from actors.session.profiles import Profiles
from actors.session.profiles import build as build_profiles
from actors.session.rules import rules_from
from actors.session.tool_border import ToolBorder
from actors.supervision import Backoff, Child, Reports, Supervisor
from actors.system import ActorSystem
from actors.tool.actor import ToolWorkshop
from actors.tool.builtin.history import history_tools
from actors.tool.discovery import discover
from actors.watch import LoopWatch
from messages.delivery import DESK, LetterSettled
from messages.gateway import (
    EdgeHeard,
    Receipt,
    Say,
    SayingFailed,
    SayingSucceeded,
)
from messages.ids import MessageId, SessionKey
from messages.lifecycle import Started, Stopping
from messages.platforms import PlatformAsked
from messages.settings import Settings
from messages.system import ProcessStarted, ProcessStopped
from messages.tool import CancelTools, RunTool
from store.dead_letters import open_letters
from store.search_keeper import HistorySearch
from store.store import Store, StoreOpenError
from store.taken import taken_messages
from store.threads import answered_threads
from store.usage import usage_reporter

log = structlog.get_logger(__name__)

PULLED = frozenset({"web", "terminal", "api"})
"""Surfaces that read the journal themselves, through the console."""

DRAIN_S = 10.0
"""How long running turns may go on at a stop; what is left is taken up at the next start."""

QUICK = Backoff(first_s=0.2, most_s=30.0)


class House(Bulletin):
    """A whole Callboard over one data folder. `start`, then `stop`; once."""

    def __init__(
        self,
        settings: Settings,
        *,
        home: Path,
        env: Mapping[str, str],
        clock: Clock,
        redactor: Redactor,
        version: str,
        serve_tcp: bool = True,
    ) -> None:
        self._settings = settings
        self._home = home
        self._env = env
        self._clock = clock
        self._redactor = redactor
        self._version = version
        self._serve_tcp = serve_tcp
        self._life = f"{clock.now():%Y%m%dT%H%M%S}-{os.getpid()}"
        self._started_at = clock.now()
        self._chance = random.SystemRandom().random
        self._incidents = 0
        self._taking = asyncio.Event()
        """Set while messages from platforms are taken."""

    # ------------------------------------------------------------------ start

    async def start(self) -> None:
        """Start every room in order. Raises StartError, and leaves nothing running then."""
        async with contextlib.AsyncExitStack() as stops:
            await self._start_rooms(stops)
            self._stops = stops.pop_all()

    async def _start_rooms(self, stops: contextlib.AsyncExitStack) -> None:
        """Start them; `stops` undoes it in reverse."""
        self._started_at, began = self._clock.now(), self._clock.monotonic()
        fuse = read_fuse(self._env.get(FUSE, ""))
        results = self._folder("results")
        try:
            self._store = Store.open(
                self._home / "callboard.duckdb", self._settings.store, self._clock, self._settings.prices
            )
        except StoreOpenError as error:
            raise StartError(error.what, error.remedy) from None
        stops.push_async_callback(self._store.close)
        self._journal = with_fuse(self._store.journal, fuse)
        await self._store.start()
        self._system = ActorSystem(self._clock, on_dead_letter=self._buried)
        self._watch = LoopWatch(self._system, on_blocked=self._blocked)
        self._watch.start()
        stops.callback(self._watch.close)
        self._lifecycle = Lifecycle(self._system)
        stops.push_async_callback(self._lifecycle.close)
        self._intake = Intake(self._home / "intake")
        stops.callback(self._intake.close)
        self._hub, self._roster = LiveHub(self._taken), Roster()
        self._search = self._furnish_search()
        stops.push_async_callback(self._search.close)
        self._eraser = Eraser(
            self._store, self._hub, self._clock, self._tell_sessions, results, self._letters_deleted
        )
        self._models = ModelDirectory(self._settings, self._env, self._clock, self._home, self._model_status)
        stops.push_async_callback(self._models.close)
        await self._models.discover()
        self._problems = [str(p) for p in install_hooks(self._lifecycle, self._settings.hooks, self._home)]
        self._prepare_platforms(stops)
        self._metrics = Metrics(self.status)
        self._metrics.dead_letters_open = await open_letters(self._store.select)
        base = AccessBook.of_settings(
            self._settings.platforms,
            self._settings.routes,
            self._platforms.homes,
            self._platforms.speakers_checked(),
        )
        self._access = await AccessRoom.open(self._journal, base, ClaimFile(self._home))
        self._gate = await self._furnish_gate()
        stops.push_async_callback(self._system.stop_all)
        self._supervisor = self._raise_actors(results)
        self._store.report_to(self._store_reports)
        self._door = self._furnish_door()
        self._letters = self._furnish_letters()
        self._desk = self._furnish_desk()
        self._note(
            ProcessStarted(life=self._life, version=self._version, pid=os.getpid(), at=self._clock.now())
        )
        self._console = self._build_console()
        await self._console.start()
        self._door.open = True
        self._taking.set()
        self._lifecycle.publish(Started(life=self._life, version=self._version, at=self._clock.now()))
        log.info("ready", seconds=round(self._clock.monotonic() - began, 2), url=self._console.url)

    async def _furnish_gate(self) -> Gate:
        """Make the gate, which knows in which threads we answered lately, and whose each message was."""
        stay = {name for name, ready in self._platforms.ready.items() if ready.capabilities.threads_stay}
        gate = Gate(self._access.ledger, PULLED, self._metrics.count_at_door, rooms=frozenset(stay))
        if self._platforms.ready:
            since = self._clock.now() - FOLLOWED_FOR
            gate.following.remember(await answered_threads(self._store.select, since))
            gate.remember(await taken_messages(self._store.select, since))
        return gate

    def _prepare_platforms(self, stops: contextlib.AsyncExitStack) -> None:
        """Check what the settings name; make what the platforms' rooms share."""
        self._platforms = Platforms.prepare(self._settings.platforms, self._env)
        self._problems += self._platforms.problems
        for secret in self._platforms.secrets():
            self._redactor.register(secret)
        self._control = PlatformControl(self._platforms, self._ask_platform)
        self._sender = Sender(self._tell_delivery, self._homes, self._home / "attachments" / "sent")
        self._spares: Spares | None = None
        if self._platforms.isolated():
            nursery = ThespianNursery()
            self._spares = Spares(nursery, self._clock)
            stops.push_async_callback(nursery.close)
            stops.push_async_callback(self._spares.close)

    def _folder(self, name: str) -> Path:
        folder = self._home / Path(name).expanduser()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StartError(
                f"The folder {folder} cannot be made: {error.strerror}.",
                "Let this user write there, or name another (tools.workspace, --home).",
            ) from None
        return folder

    def _raise_actors(self, results: Path) -> Supervisor:
        searches = self._settings.search.enabled
        tools = discover(own=history_tools(self._search) if searches else ())
        self._problems += [str(problem) for problem in tools.problems]
        profiles, wrong = build_profiles(
            self._settings,
            tools.specs,
            folder=self._folder,
            results=results,
            resolve=self._models.resolve,
        )
        self._problems += wrong
        services, links = self._services(profiles), self._platform_links()
        rooms: dict[str, Callable[[], Any]] = {
            "chronicle": partial(Chronicle.start, self._system, self._store.journal),
            "tools": partial(self._start_tools, profiles, results),
            **self._platforms.outboxes(links),
            "delivery": partial(self._start_delivery, links),
            "sessions": partial(self._start_sessions, services),
            "access": partial(self._access.start, self._system, self._tell_sessions, self._turned_away),
            "front desk": partial(self._start_front_desk, self._aliases()),
            **self._platforms.live_views(links),
            **self._platforms.connections(links),
        }
        rooms["retention"] = partial(
            RetentionActor.start,
            self._system,
            self._store,
            self._eraser,
            self._settings.retention,
            results,
            attachments=self._home / "attachments",
            busy=lambda: bool(self._hub.busy()),
        )
        if searches:
            rooms["search"] = partial(SearchActor.start, self._system, self._search)
        children = tuple(
            Child(name, start, backoff=QUICK, beyond="degrade", attempts=2) for name, start in rooms.items()
        )
        reports = Reports(on_incident=self._supervised)
        supervisor = Supervisor.launch(self._system, children, name="root", reports=reports)
        self._hub.on_turn = partial(self._platforms.tell_turn, tell=self._tell)
        self._to_sessions = supervisor.handle("sessions")
        self._to_tools = supervisor.handle("tools")
        self._to_delivery = supervisor.handle("delivery")
        self._to_front_desk = supervisor.handle("front desk")
        self._to_chronicle = supervisor.handle("chronicle")
        return supervisor

    def _start_tools(self, profiles: Profiles, results: Path) -> object:
        border = ToolBorder(self._redactor, self._hub, self._tell_sessions)
        return ToolWorkshop.start(
            self._system,
            profiles.main.catalogue,
            border.finished,
            border.progressed,
            results,
            self._watch,
            self._env,
            catalogue_of=profiles.catalogue_of,
        )

    def _start_sessions(self, services: Services) -> object:
        session = self._settings.session
        return SessionDirectory.start(
            self._system,
            services,
            self._roster,
            sleep_after_s=session.sleep_after_s,
            most_awake=session.most_awake,
            chance=self._chance,
            on_incident=self._incident,
        )

    def _aliases(self) -> Aliases:
        """Their key is a secret of this data folder that stays the same."""
        token = token_of(self._settings.server, self._home).get_secret_value()
        return Aliases(self._platforms.with_telling_ids, blake2b(token.encode()).digest())

    def _start_front_desk(self, aliases: Aliases) -> object:
        knowledge = Knowledge(
            self._models.resolve, self._models.known, self._process_info, self._platforms_info
        )
        links = DeskLinks(self._tell_sessions, partial(self._tell, "access"), self._turned_away)
        return FrontDesk.start(
            self._system,
            knowledge,
            self._redactor,
            self._gate,
            links,
            intake=self._intake,
            aliases=aliases,
        )

    def _start_delivery(self, links: HouseLinks) -> object:
        follow = partial(self._gate.following.watching, now=self._clock.now)
        return Delivery.start(
            self._system,
            {name: follow(partial(links.tell, f"outbox:{name}")) for name in self._platforms.ready},
            links.tell_session,
            homes=self._homes(),
            target_of=self._platforms.target_of,
            posted_to=self._access.posted_to,
            on_local=self._kept_locally,
        )

    def _platform_links(self) -> HouseLinks:
        return HouseLinks(
            system=self._system,
            journal=self._journal,
            tell=self._tell,
            tell_session=self._reply_ended,
            tell_delivery=partial(self._tell, "delivery"),
            hear=self._hear,
            on_incident=self._incident,
            count=self._metrics.count_post,
            count_reconnect=self._metrics.count_reconnect,
            on_up=lambda name, up: self._metrics.platform_up(name, up=up),
            on_letter=self._metrics.count_letter,
            tell_letters=self._letter_settled,
            select=self._store.select,
            attachments=self._home / "attachments",
            spares=self._spares,
            draft_now=self._hub.draft_now,
            clean=self._redactor.clean,
        )

    def _reply_ended(self, key: SessionKey, ending: SayingSucceeded | SayingFailed) -> None:
        """What `callboard send` and the front desk said is no session's."""
        if not self._sender.ended(ending) and not key.startswith(DESK):
            self._tell_sessions(Route(key, ending))

    def _homes(self) -> Homes:
        return Homes(self._access.ledger, self._platforms.ready)

    def _tell(self, room: str, message: object) -> None:
        self._supervisor.handle(room).tell(message)

    async def _hear(self, message: EdgeHeard) -> Receipt:
        """What comes from platforms: it waits until the desk is open, and for ever once it closes."""
        await self._taking.wait()
        return await self._door.hear(message)

    def _services(self, profiles: Profiles) -> Services:
        rules = rules_from(
            self._settings,
            fallbacks=self._models.fallbacks(),
            pulled=PULLED,
            hints=self._platforms.hints,
        )
        asker = Asker(
            models=self._models,
            profiles=profiles,
            hub=self._hub,
            redactor=self._redactor,
            clock=self._clock,
            chance=self._chance,
            max_output_tokens=self._settings.model.max_output_tokens,
        )
        return Services(
            journal=self._journal,
            asker=asker,
            hub=self._hub,
            lifecycle=self._lifecycle,
            count=self._metrics.count,
            rules=rules,
            life=self._life,
            tell_workshop=self._tell_tools,
            tell_delivery=self._tell_delivery,
            usage=usage_reporter(self._store.select, self._clock.now),
        )

    def _furnish_search(self) -> HistorySearch:
        return HistorySearch(
            self._home / "index",
            self._store,
            self._clock,
            busy=lambda: bool(self._hub.busy()),
            enabled=self._settings.search.enabled,
        )

    def _furnish_door(self) -> Door:
        ask = {name: self._supervisor.handle(name).ask for name in ("front desk", "access")}
        links = DoorLinks(
            hub=self._hub,
            clock=self._clock,
            tell_front_desk=self._tell_front_desk,
            ask_front_desk=partial(ask["front desk"], block=False),
            ask_access=partial(ask["access"], block=False),
            tell_sessions=self._tell_sessions,
            tell_delivery=self._tell_delivery,
            says_refusals=self._platforms.says_refusals,
        )
        return Door(self._access.ledger, links)

    def _furnish_desk(self) -> HouseDesk:
        return HouseDesk(
            hub=self._hub,
            store=self._store,
            search=self._search,
            eraser=self._eraser,
            roster=self._roster,
            models=self._models,
            clock=self._clock,
            door=self._door,
            tell_sessions=self._tell_sessions,
            status=self.status,
            metrics=self._metrics,
            sender=self._sender,
            control=self._control,
            letters=self._letters,
        )

    def _letters_deleted(self, count: int) -> None:
        for _ in range(count):
            self._metrics.count_letter("closed")

    def _letter_settled(self, settled: LetterSettled) -> None:
        self._letters.settled(settled)

    def _furnish_letters(self) -> DeadLetterBox:
        links = LetterLinks(
            journal=self._journal,
            select=self._store.select,
            hub=self._hub,
            speak=self._door.speak,
            tell_sessions=self._tell_sessions,
            tell_outbox=lambda account, decided: self._tell(f"outbox:{account}", decided),
            why_not_served=self._control.why_not_served,
            on_closed=partial(self._metrics.count_letter, "closed"),
            clean=self._redactor.clean,
        )
        return DeadLetterBox(self._clock, links)

    async def _ask_platform(self, room: str, asked: PlatformAsked) -> str:
        async with asyncio.timeout(ANSWER_S):
            return str(await self._supervisor.handle(room).ask(asked, block=False))

    def _build_console(self) -> ConsoleServer:
        token = token_of(self._settings.server, self._home)
        self._redactor.register(token.get_secret_value())
        return ConsoleServer(
            self._desk,
            self._settings.server,
            home=self._home,
            token=token,
            clock=self._clock,
            version=self._version,
            serve_tcp=self._serve_tcp,
            commands=[(command.name, command.summary) for command in COMMANDS],
        )

    # ------------------------------------------------------------------ stop

    async def stop(self) -> None:
        """Take nothing new, let running turns end for a while, then stop the rooms in reverse."""
        self._door.open = False
        self._taking.clear()
        self._lifecycle.publish(Stopping(life=self._life, at=self._clock.now()))
        deadline = self._clock.monotonic() + DRAIN_S
        while (self._hub.busy() or self._platforms.posting()) and self._clock.monotonic() < deadline:
            await self._clock.sleep(0.05)
        left = len(self._hub.busy())
        if left:
            log.warning("turns are still running; they go on at the next start", turns=left)
        await self._console.stop()
        self._note(ProcessStopped(life=self._life, at=self._clock.now()))
        await self._stops.aclose()

    # ------------------------------------------------------------------ who knows whom

    @property
    def url(self) -> str:
        """Where a browser finds us; empty without TCP."""
        return self._console.url

    @property
    def socket(self) -> Path:
        """The control socket."""
        return self._console.socket

    def login_url(self) -> str:
        """Return a link that logs a browser in, once and soon."""
        return self._console.login_url()

    def _tell_sessions(self, route: Route) -> None:
        self._to_sessions.tell(route)

    def _tell_tools(self, message: RunTool | CancelTools) -> None:
        self._to_tools.tell(message)

    def _tell_delivery(self, say: Say) -> None:
        self._to_delivery.tell(say)

    def _tell_front_desk(self, message: Arrived) -> None:
        self._to_front_desk.tell(message)

    def _taken(self, key: SessionKey, message_id: MessageId) -> None:
        """A message is durable or refused; what had to wait for it has its turn now."""
        self._intake.done(key, message_id)
        if self._intake.waiting:
            self._to_front_desk.tell(SuspectDone())

    def _turned_away(self, receipt: Receipt) -> None:
        if receipt.session_key is not None:
            self._hub.acknowledge(receipt.session_key, receipt)
