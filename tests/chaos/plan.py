"""What a chaos run will do, all of it from one number: who says what in which life, and how each life ends.

The same seed makes the same plan. What the machine makes of it, in which millisecond a
kill falls, differs from run to run; that is why there are many.
"""

import itertools
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Account = Literal["web", "keyed", "looked", "bare"]
"""`web` is the HTTP API. The others are accounts of the bridge: with an idempotency key; with a history
that can be searched; with neither."""

NAMED_POINTS = (
    "before:append",
    "after:append",
    "before:message_accepted",  # heard, not durable
    "after:message_accepted",  # durable, not acknowledged
    "before:model_call_answered",
    "after:model_call_answered",
    "after:tool_call_started",  # noted, not started
    "before:tool_call_ended",  # done, not noted
    "after:tool_call_ended",
    "before:reply_owed",
    "after:reply_owed",  # owed, not handed over
    "before:reply_delivered",  # posted, not noted
    "after:reply_delivered",
    "before:turn_resumed",
    "after:turn_resumed",
)
"""Of the session's and the outbox's journal, by `CALLBOARD_CHAOS`."""

SEEN_POINTS = ("tool", "posted", "asked")
"""Seen from outside: a tool has left its mark and goes on; the platform has posted and not said so; the
model has been asked."""

STORE_DEATHS = ("before", "after", "invalid")
"""How the store's thread dies: before a commit of facts; after it and before anybody hears of it; because DuckDB
gives the database up."""

POLICIES = ("queue", "queue", "queue", "interrupt", "collect", "steer")
"""What a message does that comes while a turn runs; in turn over the chats, said there first with /busy."""

JUMPS_S = (-86_400.0, -3_600.0, -90.0, 90.0, 1_800.0, 172_800.0)
"""Where the machine's clock is set to, away from the true time."""

ID = re.compile(r"\b(?:web|keyed|looked|bare)-\d+-\d+\b")


@dataclass(frozen=True, slots=True)
class Message:
    """One thing that somebody says. The text names what the scripted model does about it."""

    id: str
    account: Account
    chat: str
    text: str
    twice: bool
    """Whether the platform hands it in twice."""


@dataclass(frozen=True, slots=True)
class End:
    """How a life ends: after `wait_s`, or at a point, whichever the plan names. Then SIGKILL."""

    kind: Literal["start", "random", "named", "seen", "rest", "full", "store"]
    """`start`: so long after exec, mostly before it is ready; `random`: so long after it is ready;
    `rest`: when no turn runs any more, for storms of deaths have pauses; `full`: there is no room on the
    disk for so long, then there is again, and then as `rest`; `store`: its store's thread dies as `deaths`
    say and comes back each time, and then as `rest`, or so long after the last death when there is a wait."""
    wait_s: float = 0.0
    point: str = ""
    deaths: tuple[str, ...] = ()
    """`KIND:N`: by a kind of `STORE_DEATHS`, at the Nth commit of facts after the one before."""


@dataclass(frozen=True, slots=True)
class Life:
    """What is said in one life of the process, and how it ends."""

    messages: tuple[Message, ...]
    end: End
    jump_s: float | None = None
    """How far the clock is set from the true time, soon after the start; None: it is left as it is."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run."""

    seed: int
    lives: tuple[Life, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(message for life in self.lives for message in life.messages)


def make_plan(
    seed: int, kills: int, *, sessions: int = 24, per_life: int = 6, accounts: Sequence[Account] = ("web",)
) -> Plan:
    """Make the plan of a run with so many kills."""
    chance = random.Random(seed)
    counts: dict[str, int] = {}
    lives = []
    for _ in range(kills):
        said = tuple(_message(chance, sessions, accounts, counts) for _ in range(per_life))
        jump = chance.choice(JUMPS_S) if chance.random() < 0.15 else None
        lives.append(Life(said, _end(chance), jump))
    return Plan(seed, tuple(_with_store_deaths(lives, random.Random(f"{seed}-store"))))


def _with_store_deaths(lives: Sequence[Life], chance: random.Random) -> list[Life]:
    """Let the store die again and again in one life of eight, and already in the third, there in every way.

    That one ends when the store is back; of the others some are killed while it is down.
    """
    later = range(3, len(lives))
    falling = [2, *sorted(chance.sample(later, min(len(later), max(1, len(lives) // 8 - 1))))]
    kinds = itertools.cycle(chance.sample(STORE_DEATHS, len(STORE_DEATHS)))
    with_deaths = list(lives)
    for turn, number in enumerate(number for number in falling if number < len(lives)):
        deaths = tuple(
            f"{next(kinds)}:{chance.randint(2, 4)}" for _ in range(chance.randint(2, 3) if turn else 3)
        )
        wait_s = chance.uniform(0.02, 0.3) if turn and chance.random() < 0.3 else 0.0
        with_deaths[number] = replace(lives[number], end=End("store", wait_s, deaths=deaths))
    return with_deaths


def _message(
    chance: random.Random, sessions: int, accounts: Sequence[Account], counts: dict[str, int]
) -> Message:
    number = chance.randrange(sessions)
    account = accounts[number % len(accounts)]
    chat = f"{account}-{number}"
    counts[chat] = counts.get(chat, 0) + 1
    name = f"{chat}-{counts[chat]}"
    if policy_of(chat) != "queue":
        # An interrupted turn is begun again, and its model may do again what it did: that is no fault of ours.
        deed = chance.choices(("say", "slow", "read"), (5, 4, 1))[0]
        text = f"/busy {policy_of(chat)}" if counts[chat] == 1 else f"{name} {deed}"
        return Message(name, account, chat, text, chance.random() < 0.1)
    deed = chance.choices(("say", "tool", "slow", "read", "long"), (5, 4, 2, 1, 1))[0]
    return Message(name, account, chat, f"{name} {deed}", chance.random() < 0.1)


def policy_of(chat: str) -> str:
    """Say what a message does in a chat that comes while a turn runs."""
    return POLICIES[int(chat.rpartition("-")[2]) // 4 % len(POLICIES)]


def _end(chance: random.Random) -> End:
    kind = chance.choices(("start", "random", "named", "seen", "rest", "full"), (2, 6, 12, 4, 8, 1))[0]
    if kind == "full":
        return End("full", chance.uniform(0.3, 3.0))
    if kind == "rest":
        return End("rest")
    if kind == "start":
        return End("start", chance.uniform(0.2, 1.2))
    if kind == "random":
        return End("random", chance.uniform(0.0, 2.5))
    if kind == "named":
        return End("named", point=f"{chance.choice(NAMED_POINTS)}:{chance.randint(1, 10)}")
    return End("seen", chance.uniform(0.0, 0.05), chance.choice(SEEN_POINTS))
