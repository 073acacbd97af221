"""The rooms of the chat platforms that the settings name: an outbox and a connection for each account."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog
from pydantic import BaseModel, SecretStr

from actors.cluster.isolated_edge import IsolatedEdge
from actors.cluster.nursery import ThespianNursery
from actors.cluster.spares import Spares
from actors.gateway.commands import COMMANDS
from actors.gateway.edge import Edge, EdgeContext, Hear, OfferedCommand
from actors.gateway.joining import JoinRules
from actors.gateway.live_view import LiveLinks, LiveRules, LiveViewActor
from actors.gateway.marks import Marks, Select
from actors.gateway.outbox_actor import LetterChange, OutboxActor, OutboxLinks
from actors.gateway.parts import OutboxRules
from actors.gateway.platform_actor import PlatformActor, PlatformLinks
from actors.gateway.registry import PlatformUnavailableError, Ready, Registry
from actors.gateway.targets import account_name, platform_and_account
from actors.redaction import Clean
from actors.runtime import ActorSystem
from messages.delivery import (
    DraftStands,
    LetterSettled,
    OutboxHeard,
    OutboxWoke,
    PlatformConnected,
    PlatformLost,
    SayTaken,
    TurnGone,
    TurnSeen,
)
from messages.gateway import Origin, SayingFailed, SayingSucceeded
from messages.ids import DeliveryId, SessionKey, StreamId
from messages.settings import PlatformSettings
from store.journal import Journal

log = structlog.get_logger(__name__)


def rules_of(ready: Ready) -> OutboxRules:
    """What the outbox of an account goes by."""
    limits, can, settings = ready.limits, ready.capabilities, ready.settings
    return OutboxRules(
        limit=limits.length,
        unit=limits.unit,
        files=limits.files,
        file_bytes=limits.file_bytes,
        caption=limits.caption,
        buttons=can.buttons,
        splits_itself=can.splits_itself,
        idempotency_key=can.idempotency_key,
        key_valid_s=can.key_valid_s,
        history=can.history,
        unknown_outcome=settings.unknown_outcome or can.unknown_outcome,
        at_once=settings.at_once,
        most_parts=settings.most_parts,
        attempts=settings.attempts,
        render=ready.render,
    )


def live_rules_of(ready: Ready) -> LiveRules | None:
    """What the live view of an account goes by; None when nothing can or should be shown."""
    limits, can, wanted = ready.limits, ready.capabilities, ready.settings.live
    rules = LiveRules(
        typing=can.typing and wanted.typing,
        reactions=can.reactions and wanted.reactions,
        drafts=can.edits and wanted.drafts and limits.edits_per_second is not None,
        buttons=can.buttons,
        length=limits.length,
        unit=limits.unit,
        edits_per_second=limits.edits_per_second or 1.0,
        edits_per_minute=limits.edits_per_minute,
        render=ready.render,
    )
    return rules if rules.typing or rules.reactions or rules.drafts else None


@dataclass(frozen=True, slots=True)
class HouseLinks:
    """What the rooms need of the house. `tell` sends a message to a room by its name."""

    system: ActorSystem
    journal: Journal
    tell: Callable[[str, Any], None]
    tell_session: Callable[[SessionKey, SayingSucceeded | SayingFailed], None]
    tell_delivery: Callable[[SayTaken | OutboxWoke], None]
    hear: Hear
    on_incident: Callable[[str, str, str], None]
    """(room, what, detail)"""
    count: Callable[[str, str], None]
    """(account, outcome) of a call"""
    draft_now: Callable[[SessionKey], tuple[int, str]]
    """The running turn of a session, and what is written of its answer so far."""
    select: Select
    """For what earlier lives heard."""
    attachments: Path
    """The folder for what people attach; each account has its own in it."""
    spares: Spares | None = None
    """Raises the processes of isolated platforms; there when any account asks for it."""
    count_reconnect: Callable[[str], None] = lambda _: None
    """(account)"""
    on_up: Callable[[str, bool], None] = lambda _name, _up: None
    """(account, whether it is connected)"""
    on_letter: Callable[[LetterChange], None] = lambda _: None
    """Told of each durable change of the dead letters of replies."""
    tell_letters: Callable[[LetterSettled], None] = lambda _: None
    chance: Callable[[], float] = field(default=random.SystemRandom().random)
    clean: Clean = str
    """The redactor's."""


@dataclass
class Platforms:
    """The accounts that can be served, by name: `platform`, or `platform/account`."""

    ready: dict[str, Ready] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """Why others cannot, with the remedy."""
    unusable: dict[str, str] = field(default_factory=dict)
    """The same, by account."""
    states: dict[str, str] = field(default_factory=dict)
    """`connected`, `waiting`, `paused`, or `degraded: why`."""
    load: dict[str, int] = field(default_factory=dict)
    off: tuple[str, ...] = ()
    """Accounts that the settings name and do not enable."""
    connecting: "dict[str, Connecting]" = field(default_factory=dict)
    drafts: dict[str, Mapping[DeliveryId, DraftStands]] = field(default_factory=dict)
    """The live drafts that stand, by account: written by the outboxes, read by the live views."""

    @classmethod
    def prepare(
        cls,
        settings: Mapping[str, PlatformSettings],
        env: Mapping[str, str],
        registry: Registry | None = None,
    ) -> "Platforms":
        """Check what the settings name. One that cannot be used is a problem, and stops nothing."""
        found, registry = cls(), registry or Registry.discover()
        for name, each in settings.items():
            if not each.enabled:
                found.off += (name,)
                continue
            platform, account = platform_and_account(name)
            try:
                _check_isolation(name, each)
                found.ready[name] = registry.prepare(platform, account, each, env)
            except PlatformUnavailableError as error:
                log.warning("platform cannot be used", platform=name, what=error.what, remedy=error.remedy)
                found.problems.append(str(error))
                found.unusable[name] = str(error)
        return found

    @property
    def homes(self) -> dict[str, str | None]:
        return {name: ready.home for name, ready in self.ready.items()}

    def target_of(self, origin: Origin) -> str:
        """Say where answers to a place go: `origin`, or elsewhere where the platform's settings say so."""
        ready = self.ready.get(account_name(origin.platform, origin.account))
        if ready is None or ready.entry.target_of is None:
            return "origin"
        try:
            return ready.entry.target_of(ready.options, origin)
        except Exception:
            log.exception("a platform cannot say where answers go; they go back", platform=origin.platform)
            return "origin"

    def says_refusals(self, name: str, *, native: bool) -> bool:
        """Whether the edge of an account tells people itself why something was not taken.

        `native`: of what came by a button or a native command.
        """
        ready = self.ready.get(name)
        if ready is None:
            return True
        can = ready.capabilities
        return can.says_refusals or (native and can.says_refusals_natively)

    def speakers_checked(self) -> frozenset[str]:
        """The accounts on which nobody is heard who does not know a secret."""
        return frozenset(name for name, ready in self.ready.items() if ready.entry.checks_speakers)

    @property
    def hints(self) -> dict[str, str]:
        """What each account's platform has to tell the model."""
        return {name: ready.entry.prompt_hint for name, ready in self.ready.items()}

    @property
    def with_telling_ids(self) -> frozenset[str]:
        """Accounts whose ids say something about people, and are not for models."""
        return frozenset(name for name, ready in self.ready.items() if not ready.entry.pii_safe)

    def secrets(self) -> tuple[str, ...]:
        """The secrets in the options, for the redactor."""
        return tuple(text for ready in self.ready.values() for text in _secrets_in(ready.options))

    def degraded(self) -> tuple[str, ...]:
        """Names of the platforms that cannot be reached, with the reason."""
        bad = {name: state for name, state in self.states.items() if state.startswith("degraded")}
        return tuple(f"platform:{name} ({state.partition(': ')[2]})" for name, state in bad.items())

    def isolated(self) -> bool:
        """Say whether any account asks for a process of its own."""
        return any(ready.settings.isolation == "process" for ready in self.ready.values())

    def posting(self) -> bool:
        """Say whether posts are being made, or would be at once."""
        return any(self.load.values())

    def outboxes(self, links: HouseLinks) -> dict[str, Callable[[], Any]]:
        """What starts the outboxes, by the names of the rooms."""
        return {f"outbox:{name}": self._outbox(name, ready, links) for name, ready in self.ready.items()}

    def connections(self, links: HouseLinks) -> dict[str, Callable[[], Any]]:
        """What starts the platforms' actors, by the names of the rooms."""
        return {
            f"platform:{name}": self._connection(name, ready, links) for name, ready in self.ready.items()
        }

    def live_views(self, links: HouseLinks) -> dict[str, Callable[[], Any]]:
        """What starts the live views, by the names of the rooms; none where nothing is to be seen."""
        return {
            f"live:{name}": self._live_view(name, rules, links)
            for name, ready in self.ready.items()
            if (rules := live_rules_of(ready)) is not None
        }

    def _live_view(self, name: str, rules: LiveRules, house: HouseLinks) -> Callable[[], Any]:
        def standing(delivery_id: DeliveryId) -> str | None:
            stands = self.drafts.get(name, {}).get(delivery_id)
            return stands.receipt if stands is not None else None

        links = LiveLinks(
            tell_platform=lambda message: house.tell(f"platform:{name}", message),
            tell_outbox=lambda message: house.tell(f"outbox:{name}", message),
            draft_now=house.draft_now,
            standing=standing,
        )
        return lambda: LiveViewActor.start(house.system, name, rules, links)

    def tell_turn(self, seen: TurnSeen | TurnGone, tell: Callable[[str, Any], None]) -> None:
        """Tell a live view of a turn, if its account has one."""
        name = account_name(seen.origin.platform, seen.origin.account)
        ready = self.ready.get(name)
        if ready is not None and live_rules_of(ready) is not None:
            tell(f"live:{name}", seen)

    def _outbox(self, name: str, ready: Ready, house: HouseLinks) -> Callable[[], Any]:
        def on_load(load: int) -> None:
            self.load[name] = load

        def on_drafts(drafts: Mapping[DeliveryId, DraftStands]) -> None:
            self.drafts[name] = drafts

        links = OutboxLinks(
            journal=house.journal,
            tell_platform=lambda message: house.tell(f"platform:{name}", message),
            tell_session=house.tell_session,
            tell_delivery=house.tell_delivery,
            on_incident=lambda what, detail: house.on_incident(f"outbox:{name}", what, detail),
            chance=house.chance,
            count=lambda outcome: house.count(name, outcome),
            on_load=on_load,
            on_drafts=on_drafts,
            on_letter=house.on_letter,
            tell_letters=house.tell_letters,
        )
        rules = rules_of(ready)
        return lambda: OutboxActor.start(house.system, name, rules, links)

    def _connection(self, name: str, ready: Ready, house: HouseLinks) -> Callable[[], Any]:
        marks = Marks(ready.entry.name, ready.account)
        connecting = Connecting(name, ready, house, marks)

        def on_state(state: str) -> None:
            self.states[name] = state

        def tell_outbox(message: OutboxHeard) -> None:
            if isinstance(message, PlatformConnected | PlatformLost):
                house.on_up(name, isinstance(message, PlatformConnected))
            house.tell(f"outbox:{name}", message)

        links = PlatformLinks(
            edge=connecting.edge,
            hear=house.hear,
            tell_outbox=tell_outbox,
            tell_live=lambda message: house.tell(f"live:{name}", message),
            chance=house.chance,
            on_incident=lambda what, detail: house.on_incident(f"platform:{name}", what, detail),
            on_state=on_state,
            journal=house.journal,
            stream=StreamId(f"platform:{ready.entry.name}:{ready.account}"),
            prepare=lambda: marks.load(house.select, house.system.clock),
            marks=marks,
            joins=JoinRules.of(ready.limits),
            start_timeout_s=ready.settings.start_timeout_s,
            quiet_probe_s=ready.settings.quiet_probe_s,
            count_reconnect=lambda: house.count_reconnect(name),
            clean=house.clean,
        )
        self.connecting[name] = connecting
        return lambda: PlatformActor.start(house.system, name, links)

    def processes(self) -> dict[str, str]:
        """Say which account lives in which process of its own, and how much memory that has."""
        return {name: text for name, each in self.connecting.items() if (text := each.process())}


class Connecting:
    """Makes the edges of one account: each with a context of its own, in this process or in another."""

    def __init__(self, name: str, ready: Ready, house: HouseLinks, marks: Marks) -> None:
        self._ready = ready
        self._house = house
        self._marks = marks
        self._latest: Edge | None = None
        self._context = EdgeContext(
            ready.entry.name,
            ready.account,
            house.system.clock,
            files=house.attachments / name.replace("/", "-"),
            commands=OFFERED,
        )

    def edge(self, trouble: Callable[[str], None]) -> Edge:
        """Make a fresh edge."""
        context = replace(self._context, last_heard=self._marks.snapshot(), trouble=trouble)
        if self._ready.settings.isolation == "process":
            assert self._house.spares is not None, (
                "an account asks for isolation, and nobody raises processes"
            )
            self._latest = IsolatedEdge(self._ready, context, self._house.spares)
        else:
            self._latest = self._ready.entry.factory(self._ready.options, context)
        return self._latest

    def process(self) -> str:
        """Return the process of an isolated account, with its memory; empty when there is none."""
        return self._latest.process() if isinstance(self._latest, IsolatedEdge) else ""


OFFERED = tuple(
    OfferedCommand(name=command.name, argument=command.argument, summary=command.summary)
    for command in COMMANDS
)


def _check_isolation(name: str, settings: PlatformSettings) -> None:
    """Raises PlatformUnavailableError where an account asks for a process and cannot have one."""
    if settings.isolation == "process" and (missing := ThespianNursery.missing()):
        raise PlatformUnavailableError(
            f"The platform {name!r}: {missing}.", f"Leave out platforms.{name}.isolation."
        )


def _secrets_in(value: object) -> tuple[str, ...]:
    match value:
        case SecretStr():
            return (value.get_secret_value(),)
        case BaseModel():
            return tuple(text for _, part in value for text in _secrets_in(part))
        case dict():
            return tuple(text for part in value.values() for text in _secrets_in(part))
        case list() | tuple():
            return tuple(text for part in value for text in _secrets_in(part))
        case _:
            return ()
