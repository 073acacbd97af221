"""What a house says of itself: incidents, what is wrong, how it is doing. The part of the house that reports."""

import os
from datetime import datetime
from pathlib import Path

import structlog

from actors.clock import Clock
from actors.endings import DeadLetter
from actors.gateway.actor import Arrived
from actors.gateway.platform_rooms import Platforms
from actors.handle import Handle
from actors.lifecycle import Lifecycle
from actors.metrics import Metrics
from actors.redaction import Redactor
from actors.session.directory import Roster, Route, heard_in
from actors.session.live import LiveHub
from actors.session.models.directory import ModelDirectory
from actors.session.models.port import ModelCallError
from actors.supervision import Incident, Supervisor
from actors.system import ActorSystem
from actors.watch import Blocked, LoopWatch
from messages.access import ClaimTried, StrangerKnocked, WishSpoken
from messages.gateway import Acceptance, ModelStatusChanged, Receipt, StatusReport
from messages.lifecycle import Incident as IncidentEvent
from messages.model import ModelRef
from messages.system import IncidentHappened, ProcessStarted, ProcessStopped
from store.search_keeper import HistorySearch
from store.store import Store

log = structlog.get_logger(__name__)

MOST_PROBLEMS = 50


class Bulletin:
    """The reporting part of a house; `House` fills in what it reports of."""

    _home: Path
    _clock: Clock
    _redactor: Redactor
    _version: str
    _life: str
    _started_at: datetime
    _incidents: int
    _problems: list[str]
    _system: ActorSystem
    _watch: LoopWatch
    _lifecycle: Lifecycle
    _hub: LiveHub
    _roster: Roster
    _store: Store
    _search: HistorySearch
    _models: ModelDirectory
    _platforms: Platforms
    _metrics: Metrics
    _supervisor: Supervisor
    _to_chronicle: Handle

    def _kept_locally(self, why: str) -> None:
        """Something had a target that nobody serves: the status says so, once."""
        if why not in self._problems and len(self._problems) < MOST_PROBLEMS:
            self._problems.append(why)

    def _model_status(self, text: str) -> None:
        """What a model says of itself, such as the loading of the local one: to all who wait for it."""
        log.info("model", status=text)
        for key in self._hub.busy():
            turn = self._hub.now(key)[0].turn
            self._hub.told(key, ModelStatusChanged(turn=turn, text=text))

    def _note(self, fact: ProcessStarted | ProcessStopped | IncidentHappened) -> None:
        self._to_chronicle.tell(fact)

    def _supervised(self, incident: Incident) -> None:
        self._incident(incident.child, incident.what, incident.detail)

    def _buried(self, letter: DeadLetter) -> None:
        """Nobody will handle this. Whoever waits at the door is told, and may send it again."""
        message = letter.message
        match message:
            case Route():
                key, heard = message.key, heard_in(message.message)
            case Arrived() | WishSpoken() | StrangerKnocked() | ClaimTried():
                key, heard = message.key, message.heard
            case _:
                return
        if heard is not None:
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

    def _platforms_info(self) -> str:
        states = self._platforms.states
        lines = [f"- **{name}**: {states.get(name, 'not connected yet')}" for name in self._platforms.ready]
        lines += [f"- {problem}" for problem in self._platforms.problems]
        return "\n".join(lines) or "No chat platform is configured."

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
            dead_letters=self._metrics.dead_letters_open,
            store=self._store.stats() | self._search.figures(),
            platforms=dict(self._platforms.states),
            platform_processes=self._platforms.processes(),
            degraded=(
                *(child.name for child in children if child.state == "degraded"),
                *self._platforms.degraded(),
                *(("store",) if self._store.problem else ()),
            ),
        )
