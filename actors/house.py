"""The house: every room started in order, handed what it needs, and stopped in reverse.

    store → chronicle → lifecycle and hooks → models → tools → delivery → sessions → front desk → console

Nothing here decides anything; it only says who knows whom.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import structlog

from actors.chronicle import Chronicle
from actors.clock import Clock
from actors.console.server import ConsoleServer
from actors.console.token import token_of
from actors.endings import DeadLetter
from actors.errors import StartError
from actors.fuse import VARIABLE as FUSE
from actors.fuse import read_fuse, with_fuse
from actors.gateway.actor import FrontDesk, SuspectDone
from actors.gateway.commands import COMMANDS
from actors.gateway.delivery import Delivery
from actors.gateway.desk import HouseDesk
from actors.gateway.erasure import Eraser
from actors.gateway.intake import Intake
from actors.gateway.platform_rooms import HouseLinks, Platforms
from actors.gateway.session_key import SessionKeyError, key_of
from actors.gateway.transition import Knowledge
from actors.hooks import install_hooks
from actors.lifecycle import Lifecycle
from actors.metrics import Metrics
from actors.redaction import Redactor
from actors.retention import RetentionActor
from actors.search import SearchActor
from actors.session.actor import Services
from actors.session.asking import Asker
from actors.session.decision import Rules
from actors.session.directory import Roster, Route, SessionDirectory, heard_in
from actors.session.live import LiveHub
from actors.session.models.directory import ModelDirectory
from actors.session.models.port import ModelCallError
from actors.session.tool_border import ToolBorder
from actors.supervision import Backoff, Child, Incident, Reports, Supervisor
from actors.system import ActorSystem
from actors.tool.actor import ToolWorkshop
from actors.tool.builtin.history import history_tools
from actors.tool.catalogue import Catalogue
from actors.tool.discovery import discover
from actors.watch import Blocked, LoopWatch
from messages.gateway import (
    Acceptance,
    EdgeHeard,
    MessageReceived,
    ModelStatusChanged,
    Receipt,
    Say,
    StatusReport,
)
from messages.ids import MessageId, SessionKey
from messages.lifecycle import Incident as IncidentEvent
from messages.lifecycle import Started, Stopping
from messages.model import ModelRef
from messages.settings import Settings
from messages.system import IncidentHappened, ProcessStarted, ProcessStopped
from messages.tool import CancelTools, RunTool
from store.dead_letters import open_letters
from store.search_keeper import HistorySearch
from store.store import Store, StoreOpenError

log = structlog.get_logger(__name__)

PULLED = frozenset({"web", "terminal", "api"})
"""Surfaces that read the journal themselves, through the console."""

DRAIN_S = 10.0
"""How long running turns may go on at a stop; what is left is taken up at the next start."""

MOST_PROBLEMS = 50

QUICK = Backoff(first_s=0.2, most_s=30.0)


class House:
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
        workspace = self._folder(self._settings.tools.workspace or "workspace")
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
        self._eraser = Eraser(self._store, self._hub, self._clock, self._tell_sessions, results)
        self._models = ModelDirectory(self._settings, self._env, self._clock, self._home, self._model_status)
        stops.push_async_callback(self._models.close)
        await self._models.discover()
        self._problems = [str(p) for p in install_hooks(self._lifecycle, self._settings.hooks, self._home)]
        self._platforms = Platforms.prepare(self._settings.platforms, self._env)
        self._problems += self._platforms.problems
        for secret in self._platforms.secrets():
            self._redactor.register(secret)
        self._metrics = Metrics(self.status)
        self._metrics.dead_letters_open = await open_letters(self._store.select)
        stops.push_async_callback(self._system.stop_all)
        self._supervisor = self._raise_actors(workspace, results)
        self._store.report_to(self._store_reports)
        self._desk = self._furnish_desk()
        self._note(
            ProcessStarted(life=self._life, version=self._version, pid=os.getpid(), at=self._clock.now())
        )
        self._console = self._build_console()
        await self._console.start()
        self._desk.open = True
        self._taking.set()
        self._lifecycle.publish(Started(life=self._life, version=self._version, at=self._clock.now()))
        log.info("ready", seconds=round(self._clock.monotonic() - began, 2), url=self._console.url)

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

    def _raise_actors(self, workspace: Path, results: Path) -> Supervisor:
        searches = self._settings.search.enabled
        tools = discover(own=history_tools(self._search) if searches else ())
        self._problems += [str(problem) for problem in tools.problems]
        catalogue = Catalogue(tools.specs, self._settings.tools, workspace, results)
        services = self._services(catalogue)
        border = ToolBorder(self._redactor, self._hub, self._tell_sessions)
        system, session = self._system, self._settings.session

        def tools_room() -> object:
            return ToolWorkshop.start(
                system, catalogue, border.finished, border.progressed, results, self._watch, self._env
            )

        def sessions_room() -> object:
            return SessionDirectory.start(
                system,
                services,
                self._roster,
                sleep_after_s=session.sleep_after_s,
                most_awake=session.most_awake,
                chance=self._chance,
                on_incident=self._incident,
            )

        def desk_room() -> object:
            knowledge = Knowledge(self._models.resolve, self._models.known, self._process_info)
            return FrontDesk.start(
                system,
                knowledge,
                self._redactor,
                self._tell_sessions,
                self._turned_away,
                intake=self._intake,
            )

        links = self._platform_links()

        def delivery_room() -> object:
            outboxes = {name: partial(links.tell, f"outbox:{name}") for name in self._platforms.ready}
            homes = self._platforms.homes
            return Delivery.start(
                system, outboxes, links.tell_session, homes=homes, on_local=self._kept_locally
            )

        rooms = {
            "chronicle": lambda: Chronicle.start(system, self._store.journal),
            "tools": tools_room,
            **self._platforms.outboxes(links),
            "delivery": delivery_room,
            "sessions": sessions_room,
            "front desk": desk_room,
            **self._platforms.live_views(links),
            **self._platforms.connections(links),
        }
        rooms["retention"] = partial(
            RetentionActor.start,
            system,
            self._store,
            self._eraser,
            self._settings.retention,
            results,
            busy=lambda: bool(self._hub.busy()),
        )
        if searches:
            rooms["search"] = lambda: SearchActor.start(system, self._search)
        children = tuple(
            Child(name, start, backoff=QUICK, beyond="degrade", attempts=2) for name, start in rooms.items()
        )
        reports = Reports(on_incident=self._supervised)
        supervisor = Supervisor.launch(system, children, name="root", reports=reports)
        self._hub.on_turn = partial(self._platforms.tell_turn, tell=self._tell)
        self._to_sessions = supervisor.handle("sessions")
        self._to_tools = supervisor.handle("tools")
        self._to_delivery = supervisor.handle("delivery")
        self._to_front_desk = supervisor.handle("front desk")
        self._to_chronicle = supervisor.handle("chronicle")
        return supervisor

    def _platform_links(self) -> HouseLinks:
        return HouseLinks(
            system=self._system,
            journal=self._journal,
            tell=self._tell,
            tell_session=lambda key, ending: self._tell_sessions(Route(key, ending)),
            tell_delivery=partial(self._tell, "delivery"),
            hear=self._hear,
            on_incident=self._incident,
            count=self._metrics.count_post,
            draft_now=self._hub.draft_now,
        )

    def _kept_locally(self, why: str) -> None:
        """Something had a target that nobody serves: the status says so, once."""
        if why not in self._problems and len(self._problems) < MOST_PROBLEMS:
            self._problems.append(why)

    def _tell(self, room: str, message: object) -> None:
        self._supervisor.handle(room).tell(message)

    async def _hear(self, message: EdgeHeard) -> Receipt:
        """What comes from platforms: it waits until the desk is open, and for ever once it closes."""
        await self._taking.wait()
        return await self._desk.hear(message)

    def _services(self, catalogue: Catalogue) -> Services:
        session = self._settings.session
        rules = Rules(
            busy_dm=session.busy_dm,
            busy_group=session.busy_group,
            busy_api=session.busy_api,
            model_calls=session.model_calls_per_turn,
            queue_limit=session.queue_limit,
            attempts=self._settings.model.attempts,
            parallel=self._settings.tools.parallel,
            fallbacks=self._models.fallbacks(),
            pulled=PULLED,
        )
        asker = Asker(
            models=self._models,
            catalogue=catalogue,
            hub=self._hub,
            redactor=self._redactor,
            clock=self._clock,
            chance=self._chance,
            instructions=session.instructions,
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
        )

    def _furnish_search(self) -> HistorySearch:
        return HistorySearch(
            self._home / "index",
            self._store,
            self._clock,
            busy=lambda: bool(self._hub.busy()),
            enabled=self._settings.search.enabled,
        )

    def _furnish_desk(self) -> HouseDesk:
        return HouseDesk(
            hub=self._hub,
            store=self._store,
            search=self._search,
            eraser=self._eraser,
            roster=self._roster,
            models=self._models,
            clock=self._clock,
            tell_front_desk=self._tell_front_desk,
            tell_sessions=self._tell_sessions,
            status=self.status,
            metrics=self._metrics,
        )

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
        self._desk.open = False
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

    def _tell_front_desk(self, message: MessageReceived) -> None:
        self._to_front_desk.tell(message)

    def _taken(self, key: SessionKey, message_id: MessageId) -> None:
        """A message is durable or refused; what had to wait for it has its turn now."""
        self._intake.done(key, message_id)
        if self._intake.waiting:
            self._to_front_desk.tell(SuspectDone())

    def _turned_away(self, receipt: Receipt) -> None:
        if receipt.session_key is not None:
            self._hub.acknowledge(receipt.session_key, receipt)

    def _model_status(self, text: str) -> None:
        """What a model says of itself, such as the loading of the local one: to all who wait for it."""
        log.info("model", status=text)
        for key in self._hub.busy():
            turn = self._hub.now(key)[0].turn
            self._hub.told(key, ModelStatusChanged(turn=turn, text=text))

    # ------------------------------------------------------------------ incidents and figures

    def _note(self, fact: ProcessStarted | ProcessStopped | IncidentHappened) -> None:
        self._to_chronicle.tell(fact)

    def _supervised(self, incident: Incident) -> None:
        self._incident(incident.child, incident.what, incident.detail)

    def _buried(self, letter: DeadLetter) -> None:
        """Nobody will handle this. Whoever waits at the door is told, and may send it again."""
        message = letter.message.message if isinstance(letter.message, Route) else letter.message
        heard = message if isinstance(message, MessageReceived) else heard_in(message)
        if heard is None:
            return
        with contextlib.suppress(SessionKeyError):
            key = key_of(heard.origin)
            why = "Something went wrong inside before this was taken. Please send it again."
            receipt = Receipt(
                message_id=heard.message_id, session_key=key, acceptance=Acceptance.REFUSED, why=why
            )
            self._hub.acknowledge(key, receipt)

    def _blocked(self, blocked: Blocked) -> None:
        """Called from the watch's own thread."""
        who = blocked.actor or ", ".join(blocked.working) or "unknown"
        self._system.loop.call_soon_threadsafe(self._incident, who, "blocked", str(blocked))

    def _store_reports(self, what: str, detail: str) -> None:
        self._incident("store", what, detail)

    def _incident(self, child: str, what: str, detail: str) -> None:
        self._incidents += 1
        at, detail = self._clock.now(), self._redactor.clean(detail)
        incident = IncidentHappened.model_validate(
            {"life": self._life, "child": child, "what": what, "detail": detail, "at": at}
        )
        self._note(incident)
        self._lifecycle.publish(IncidentEvent(child=child, what=what, detail=detail, at=at))

    def _model(self) -> tuple[ModelRef | None, str]:
        try:
            return self._models.choose(None), ""
        except ModelCallError as error:
            return None, error.failure.remedy or error.failure.detail

    def _process_info(self) -> str:
        status = self.status()
        model = f"{status.model.provider}/{status.model.name}" if status.model else status.model_problem
        hours = status.uptime_s / 3600
        silent = status.model_silent_s
        waits = f", waiting for a model for {silent:.0f} s" if silent >= 1 else ""
        return (
            f"- **Process**: Callboard {status.version}, up for {hours:.1f} h, {status.sessions_awake} session(s) "
            f"awake, {status.turns_running} running{waits}\n- **Configured model**: {model}"
        )

    def status(self) -> StatusReport:
        """Say how the process is doing."""
        now = self._clock.now()
        model, problem = self._model()
        children = self._supervisor.status() if hasattr(self, "_supervisor") else ()
        return StatusReport(
            version=self._version,
            pid=os.getpid(),
            life=self._life,
            started_at=self._started_at,
            uptime_s=(now - self._started_at).total_seconds(),
            home=str(self._home),
            model=model,
            model_problem=problem or "; ".join(self._problems),
            sessions_awake=len(self._roster.awake),
            turns_running=len(self._hub.busy()),
            turns_done=self._metrics.turns_done,
            model_silent_s=round(self._hub.longest_silence_s(self._clock.monotonic()), 1),
            mailbox_refusals=self._system.mailbox_refusals,
            loop_lag_ms=round(self._watch.lag_s * 1000, 1),
            incidents=self._incidents,
            store=self._store.stats() | self._search.figures(),
            platforms=dict(self._platforms.states),
            degraded=(
                *(child.name for child in children if child.state == "degraded"),
                *self._platforms.degraded(),
                *(("store",) if self._store.problem else ()),
            ),
        )
