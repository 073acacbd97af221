"""What an operator set about sessions, as the session's rules read it. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from messages.gateway import ChatType, Origin
from messages.model import ModelRef
from messages.settings import BusyPolicy, PlatformSettings, ResetByChatSettings, ResetSettings, Settings

Approvers = Literal["admins", "requester", "anyone"]

NO_RESET = ResetSettings()
NO_RESET_BY_CHAT = ResetByChatSettings()


@dataclass(frozen=True, slots=True)
class PlatformRules:
    """What differs from one account on a platform to another."""

    hint: str = ""
    """A line for the model: what the platform shows and what not."""
    approvers: Approvers = "admins"
    reset: ResetByChatSettings = NO_RESET_BY_CHAT


DEFAULT = PlatformRules()


@dataclass(frozen=True, slots=True)
class Rules:
    """What an operator set about sessions."""

    busy_dm: BusyPolicy = BusyPolicy.INTERRUPT
    busy_group: BusyPolicy = BusyPolicy.QUEUE
    busy_api: BusyPolicy = BusyPolicy.QUEUE
    model_calls: int = 90
    queue_limit: int = 200
    attempts: int = 5
    parallel: int = 8
    fallbacks: tuple[ModelRef, ...] = ()
    pulled: frozenset[str] = frozenset()
    """Platforms whose surfaces read the journal themselves: there, durable is delivered."""
    reset: ResetSettings = NO_RESET
    approval_timeout_s: float = 600.0
    resume_within: timedelta = timedelta(hours=1)
    """How old a turn may be that is taken up again after a restart."""
    personalities: Mapping[str, str] = field(default_factory=dict)
    platforms: Mapping[str, PlatformRules] = field(default_factory=dict)
    """By `platform/account`, or `platform` for its main account. Read at every decision: it may change."""

    def policy_for(self, origin: Origin) -> BusyPolicy:
        """What a message does while busy, where nobody chose otherwise."""
        if origin.platform == "api":
            return self.busy_api
        return self.busy_dm if origin.chat_type is ChatType.DM else self.busy_group

    def at(self, origin: Origin) -> PlatformRules:
        """What holds for the account that heard this."""
        found = self.platforms.get(f"{origin.platform}/{origin.account}")
        if found is None and origin.account == "main":
            found = self.platforms.get(origin.platform)
        return found or DEFAULT

    def reset_for(self, origin: Origin) -> ResetSettings:
        """When a conversation in this place begins anew by itself."""
        by_chat = self.at(origin).reset
        match origin.chat_type:
            case ChatType.DM:
                chosen = by_chat.dm
            case ChatType.GROUP:
                chosen = by_chat.group
            case ChatType.THREAD:
                chosen = by_chat.thread
        return chosen or self.reset


def rules_from(
    settings: Settings,
    *,
    fallbacks: Iterable[ModelRef],
    pulled: frozenset[str],
    hints: Mapping[str, str] | None = None,
) -> Rules:
    """Return the rules that the settings make, with what each account's platform has to tell the model."""
    hints = hints or {}
    session = settings.session
    return Rules(
        busy_dm=session.busy_dm,
        busy_group=session.busy_group,
        busy_api=session.busy_api,
        model_calls=session.model_calls_per_turn,
        queue_limit=session.queue_limit,
        attempts=settings.model.attempts,
        parallel=settings.tools.parallel,
        fallbacks=tuple(fallbacks),
        pulled=pulled,
        reset=session.reset,
        approval_timeout_s=session.approval_timeout_s,
        resume_within=timedelta(minutes=session.resume_within_minutes),
        personalities=dict(session.personalities),
        platforms={
            name: _of_platform(platform, hints.get(name, "")) for name, platform in settings.platforms.items()
        },
    )


def _of_platform(settings: PlatformSettings, hint: str) -> PlatformRules:
    return PlatformRules(hint=hint, approvers=settings.access.approvers, reset=settings.reset)


def is_over(policy: ResetSettings, last: datetime, now: datetime) -> bool:
    """Say whether a conversation in which something happened `last` is over `now`."""
    idle = policy.policy in ("idle", "both") and now - last >= timedelta(minutes=policy.idle_minutes)
    return idle or (policy.policy in ("daily", "both") and last < _boundary(policy, now))


def _boundary(policy: ResetSettings, now: datetime) -> datetime:
    """Return the last time at which a day began, by the clock on the wall of its zone.

    On the day on which that hour does not exist, the clock's offset before the change
    tells when it would have been; on the day on which it comes twice, the first counts.
    """
    zone = ZoneInfo(policy.timezone)
    today = now.astimezone(zone).replace(hour=policy.at_hour, minute=0, second=0, microsecond=0, fold=0)
    if today.astimezone(now.tzinfo) <= now:
        return today.astimezone(now.tzinfo)
    # A day earlier on the calendar, not 24 hours: the offset may be another.
    return (today - timedelta(days=1)).astimezone(now.tzinfo)
