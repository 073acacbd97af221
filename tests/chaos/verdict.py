"""What a chaos run came to: the journal beside what people and tools saw."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from actors.clock import WallClock
from actors.session import facts as f
from actors.session.state import Session, fold
from messages.blocks import ToolStatus
from messages.ids import SessionKey, StreamId
from messages.settings import StoreSettings
from store.store import Store
from tests.chaos.plan import ID, Message, policy_of
from tests.chaos.seen import Posted, Seen

MOST_RSS_MB = 800.0
MOST_FDS = 150

Facts = Mapping[str, Sequence[f.SessionFact]]
"""By session key."""


@dataclass
class Counts:
    """The figures of a run. All of the second group must be 0."""

    seed: int
    kills: int
    clock_jumps: int
    """How often the clock was set while it ran; 0 also where faketime is not installed."""
    disk_full: int
    store_died: int
    """How often the thread that writes the store died in the middle of its work, the process going on."""
    store_came_back: int
    """How often it wrote facts again afterwards, in the same life."""
    store_killed_down: int
    """How often the process was killed before it could."""
    messages: int
    commands: int
    """Messages that choose what the next ones do while a turn runs: answered by us, not by the model."""
    accepted: int
    answered: int
    refused: int
    set_aside: int
    """Turns that were running at three starts in a row and were stopped, aloud."""
    too_old: int
    """Messages of turns that a clock two days ahead made too old to go on with: they were told how to retry."""
    tools_run: int
    outcomes_unknown: int
    posts: int
    posted_again_marked: int
    given_up_aloud: int
    """Answers whose posting ended unknown twice, where the platform has nothing to find out by: the chat
    was told so."""

    lost: int
    answered_twice: int
    out_of_order: int
    side_effects_twice: int
    side_effects_missing: int
    posted_twice: int
    posts_missing: int
    posts_out_of_order: int
    stuck: int
    grew: int
    store_stayed_down: int
    """How often it did not come back though it was waited for."""
    unexpected_ends: int

    rss_mb: float = 0.0
    fds: int = 0
    points: dict[str, int] = field(default_factory=dict)
    store_deaths: dict[str, int] = field(default_factory=dict)
    """How the store died: `before` a commit, `after` it and before anybody heard, or `invalid`: DuckDB gave it up."""
    findings: list[str] = field(default_factory=list)

    MUST_BE_ZERO = (
        "lost",
        "answered_twice",
        "out_of_order",
        "side_effects_twice",
        "side_effects_missing",
        "posted_twice",
        "posts_missing",
        "posts_out_of_order",
        "stuck",
        "grew",
        "store_stayed_down",
        "unexpected_ends",
    )

    @property
    def clean(self) -> bool:
        return not any(getattr(self, name) for name in self.MUST_BE_ZERO)

    def line(self) -> str:
        return json.dumps(asdict(self))


async def read_facts(home: Path) -> Facts:
    """Read every session's facts from the database of a process that has stopped."""
    store = Store.open(home / "callboard.duckdb", StoreSettings(), WallClock())
    await store.start()
    try:
        found = await store.select(
            "SELECT DISTINCT stream FROM facts WHERE stream LIKE 'session:%'", max_rows=10_000
        )
        streams = [str(row[0]) for row in found.rows]
        return {
            stream.removeprefix("session:"): [
                r.fact  # type: ignore[misc]  # a session's stream holds session facts only
                for r in await store.journal.read(StreamId(stream))
            ]
            for stream in streams
        }
    finally:
        await store.close()


def judge(said: Sequence[Message], seed: int, facts: Facts, seen: Seen) -> Counts:
    """Compare what was promised with what came of it."""
    settled = _settlements(facts)
    findings: list[str] = list(seen.unexpected_ends)
    lost = sorted(m for m in seen.accepted if not settled[m])
    twice = sorted(m for m in seen.accepted if settled[m] > 1)
    effects_twice = sorted(name for name, times in seen.effects.items() if times > 1)
    effects_missing = _effects_missing(facts, seen)
    stuck = sorted(key for key, told in facts.items() if fold(Session(key=SessionKey(key)), told).owing)
    grew = _growth(seen)
    order = _out_of_order(facts)
    for what, names in (
        ("lost", lost),
        ("answered twice", twice),
        ("effect twice", effects_twice),
        ("effect missing", effects_missing),
        ("stuck", stuck),
        ("grew", grew),
        ("out of order", order),
        ("store stayed down", seen.store_stayed_down),
        ("stuck after the store was back", seen.store_left_stuck),
    ):
        findings += [f"{what}: {name}" for name in names]
    posts = _Posts(said, facts, seen.posts)
    findings += posts.findings
    tools = [fact for fact in _all(facts) if isinstance(fact, f.ToolCallEnded)]
    return Counts(
        seed=seed,
        kills=seen.kills.total(),
        clock_jumps=seen.jumps,
        disk_full=seen.full,
        store_died=seen.store_deaths.total(),
        store_came_back=seen.store_back,
        store_killed_down=seen.store_killed_down,
        commands=sum(message.text.startswith("/") for message in said),
        messages=len(said),
        accepted=len(seen.accepted),
        answered=_answered(facts, seen),
        refused=len(seen.refused),
        set_aside=sum(isinstance(x, f.TurnEnded) and x.reason == "crashed" for x in _all(facts)),
        too_old=_too_old(facts),
        tools_run=len(tools),
        outcomes_unknown=sum(fact.status is ToolStatus.UNKNOWN for fact in tools),
        posts=len(seen.posts),
        posted_again_marked=posts.marked,
        given_up_aloud=len(posts.given_up),
        lost=len(lost),
        answered_twice=len(twice),
        out_of_order=len(order),
        side_effects_twice=len(effects_twice),
        side_effects_missing=len(effects_missing),
        posted_twice=posts.twice,
        posts_missing=posts.missing,
        posts_out_of_order=posts.out_of_order,
        stuck=len(stuck) + len(seen.store_left_stuck) + (not seen.became_quiet),
        grew=len(grew),
        store_stayed_down=len(seen.store_stayed_down),
        unexpected_ends=len(seen.unexpected_ends),
        rss_mb=round(seen.rss_mb, 1),
        fds=seen.fds,
        points=dict(sorted(seen.kills.items())),
        store_deaths=dict(sorted(seen.store_deaths.items())),
        findings=findings[:50],
    )


def _all(facts: Facts) -> list[f.SessionFact]:
    return [fact for told in facts.values() for fact in told]


def _settlements(facts: Facts) -> Counter[str]:
    """How often each accepted message was settled: answered, answered with others, or refused aloud."""
    settled: Counter[str] = Counter()
    for fact in _all(facts):
        match fact:
            case f.ReplyOwed():
                settled.update(fact.answers)
            case f.MessagesRefused():
                settled.update(fact.message_ids)
            case _:
                pass
    return settled


def _answered(facts: Facts, seen: Seen) -> int:
    replies = (fact for fact in _all(facts) if isinstance(fact, f.ReplyOwed) and not fact.notice)
    return len({m for reply in replies for m in reply.answers} & seen.accepted)


def _too_old(facts: Facts) -> int:
    ended = (fact for fact in _all(facts) if isinstance(fact, f.TurnEnded) and fact.reason == "stale")
    return len({name for fact in ended for name in fact.message_ids})


def _effects_missing(facts: Facts, seen: Seen) -> list[str]:
    """Tools that ended well and whose mark is not there."""
    done = [
        name
        for fact in _all(facts)
        if isinstance(fact, f.ToolCallEnded) and fact.name == "terminal" and fact.status is ToolStatus.OK
        for name in ID.findall(fact.arguments)
    ]
    return sorted(name for name in done if not seen.effects[name])


def _out_of_order(facts: Facts) -> list[str]:
    """Sessions that queue, and answered in another order than they heard."""
    wrong = []
    for key, told in facts.items():
        heard = [fact.message_id for fact in told if isinstance(fact, f.MessageAccepted)]
        if heard and not _queues(heard[0]):
            continue  # what comes while a turn runs is answered with it
        accepted = set(heard)  # one that was refused at the door is told so at once, before those that wait
        answers = [m for x in told if isinstance(x, f.ReplyOwed) for m in x.answers if m in accepted]
        said = sorted(heard, key=lambda name: int(name.rpartition("-")[2]))
        if heard != said or [m for m in heard if m in answers] != list(dict.fromkeys(answers)):
            wrong.append(key)
    return wrong


def _queues(name: str) -> bool:
    return policy_of(name.rpartition("-")[0]) == "queue"


def _growth(seen: Seen) -> list[str]:
    grew = []
    if seen.rss_mb > MOST_RSS_MB:
        grew.append(f"memory {seen.rss_mb:.0f} MB")
    if seen.fds > MOST_FDS:
        grew.append(f"{seen.fds} open files")
    if seen.status and seen.status["store"].get("appends_waiting"):
        grew.append(f"{seen.status['store']['appends_waiting']} appends wait")
    return grew


class _Posts:
    """What the platform's people saw, against what was owed to them."""

    def __init__(self, said: Sequence[Message], facts: Facts, posts: Sequence[Posted]) -> None:
        self.twice = self.missing = self.out_of_order = self.marked = 0
        self.findings: list[str] = []
        self._told = {
            fact.reply_to: fact
            for fact in _all(facts)
            if isinstance(fact, f.ReplyOwed) and fact.origin.platform == "bridge" and fact.reply_to
        }
        self._accepted = {x.message_id for x in _all(facts) if isinstance(x, f.MessageAccepted)}
        self.given_up = {fact.delivery_id for fact in _all(facts) if isinstance(fact, f.ReplyGivenUp)}
        by_answer: dict[tuple[str, int], list[Posted]] = defaultdict(list)
        for post in posts:
            by_answer[_answers(post) or f"notice {post.key}", post.part].append(post)
        for (name, part), copies in by_answer.items():
            self._judge_copies(name, part, copies)
        for name, told in self._told.items():
            if told.delivery_id in self.given_up:
                continue
            first = by_answer.get((str(name), 1))
            of = first[0].of if first else 1
            gone = [part for part in range(1, of + 1) if (str(name), part) not in by_answer]
            if gone:
                self.missing += 1
                self.findings.append(f"not posted: {name}, parts {gone}")
        self._judge_order(posts)

    def _judge_copies(self, name: str, part: int, copies: Sequence[Posted]) -> None:
        again = copies[1:]
        self.marked += sum(post.marked for post in again)
        allowed = 1 if copies[0].account == "bare" else 0
        if len(again) > allowed or not all(post.marked for post in again):
            self.twice += 1
            shown = [(post.key, post.marked) for post in copies]
            self.findings.append(f"posted {len(copies)} times: {name}, part {part}: {shown}")

    def _judge_order(self, posts: Sequence[Posted]) -> None:
        last: dict[str, tuple[int, int]] = {}
        first_copies: set[tuple[str, int]] = set()
        for post in posts:
            name = _answers(post)
            if (name, post.part) in first_copies or name not in self._accepted or not _queues(name):
                continue
            first_copies.add((name, post.part))
            place = (int(name.rpartition("-")[2]), post.part)
            if place < last.get(post.chat, (0, 0)):
                self.out_of_order += 1
                self.findings.append(f"posted late: {name}, part {post.part}")
            last[post.chat] = max(place, last.get(post.chat, (0, 0)))


def _answers(post: Posted) -> str:
    """Return the message that a post answers: only an answer's first part says so, but all name it."""
    found = ID.search(post.text)
    return post.reply_to or (found[0] if found else "")
