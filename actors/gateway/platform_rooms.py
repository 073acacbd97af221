"""The rooms of the chat platforms that the settings name: an outbox and a connection for each account."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from pydantic import BaseModel, SecretStr

from actors.gateway.edge import EdgeContext, Hear
from actors.gateway.live_view import LiveLinks, LiveRules, LiveViewActor
from actors.gateway.outbox_actor import OutboxActor, OutboxLinks
from actors.gateway.parts import OutboxRules
from actors.gateway.platform_actor import PlatformActor, PlatformLinks
from actors.gateway.registry import PlatformUnavailableError, Ready, Registry
from actors.gateway.targets import account_name, platform_and_account
from actors.runtime import ActorSystem
from messages.delivery import DraftStands, OutboxWoke, SayTaken, TurnGone, TurnSeen
from messages.gateway import SayingFailed, SayingSucceeded
from messages.ids import DeliveryId, SessionKey
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
    chance: Callable[[], float] = field(default=random.SystemRandom().random)


@dataclass
class Platforms:
    """The accounts that can be served, by name: `platform`, or `platform/account`."""

    ready: dict[str, Ready] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """Why others cannot, with the remedy."""
    states: dict[str, str] = field(default_factory=dict)
    """`connected`, `waiting`, or `degraded: why`."""
    load: dict[str, int] = field(default_factory=dict)
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
                continue
            platform, account = platform_and_account(name)
            try:
                found.ready[name] = registry.prepare(platform, account, each, env)
            except PlatformUnavailableError as error:
                log.warning("platform cannot be used", platform=name, what=error.what, remedy=error.remedy)
                found.problems.append(str(error))
        return found

    @property
    def homes(self) -> dict[str, str | None]:
        return {name: ready.home for name, ready in self.ready.items()}

    def secrets(self) -> tuple[str, ...]:
        """The secrets in the options, for the redactor."""
        return tuple(text for ready in self.ready.values() for text in _secrets_in(ready.options))

    def degraded(self) -> tuple[str, ...]:
        """Names of the platforms that cannot be reached, with the reason."""
        bad = {name: state for name, state in self.states.items() if state.startswith("degraded")}
        return tuple(f"platform:{name} ({state.partition(': ')[2]})" for name, state in bad.items())

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
        )
        rules = rules_of(ready)
        return lambda: OutboxActor.start(house.system, name, rules, links)

    def _connection(self, name: str, ready: Ready, house: HouseLinks) -> Callable[[], Any]:
        context = EdgeContext(ready.entry.name, ready.account, house.system.clock)

        def on_state(state: str) -> None:
            self.states[name] = state

        links = PlatformLinks(
            edge=lambda: ready.entry.factory(ready.options, context),
            hear=house.hear,
            tell_outbox=lambda message: house.tell(f"outbox:{name}", message),
            tell_live=lambda message: house.tell(f"live:{name}", message),
            chance=house.chance,
            on_incident=lambda what, detail: house.on_incident(f"platform:{name}", what, detail),
            on_state=on_state,
        )
        return lambda: PlatformActor.start(house.system, name, links)


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
