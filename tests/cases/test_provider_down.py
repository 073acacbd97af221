"""A provider that is down takes nobody's message with it, and is not run over when it comes back."""

import heapq
import random
from collections import Counter

from actors.session.decision import Rules
from actors.session.effects import AskModel, AskModelLater, Effect
from actors.session.models import breaker as circuit
from messages import session as m
from messages.model import Failure, FailureKind
from messages.settings import BusyPolicy
from tests.actors.session.sentences import MODEL, START, Story, answer, at, failure, spoke

DOWN_S = 60.0
MESSAGES = 1000


class Provider:
    """Down for a minute; a breaker stands before it, as before every provider."""

    def __init__(self) -> None:
        self.breaker = circuit.Breaker()
        self.asked: list[float] = []
        self.tries: Counter[int] = Counter()

    def ask(self, who: int, now: float) -> Failure | None:
        """Return how a call fails; None for an answer. The first calls are all under way before any fails."""
        wait = circuit.wait_of(self.breaker, now)
        if now > 0 and wait > 0:
            return Failure(
                kind=FailureKind.OVERLOADED, detail="not asked", retry_after_s=wait, sent=False, model=MODEL
            )
        self.breaker = circuit.began(self.breaker, now)
        self.asked.append(now)
        self.tries[who] += 1
        if now >= DOWN_S:
            self.breaker = circuit.succeeded(self.breaker)
            return None
        self.breaker = circuit.failed(self.breaker, FailureKind.NETWORK, now)
        return Failure(kind=FailureKind.NETWORK, detail="connection refused", model=MODEL)


def test_W03_a_thousand_messages_outlive_a_provider_that_is_down_for_a_minute() -> None:
    rules, provider, chance = Rules(busy_dm=BusyPolicy.QUEUE), Provider(), random.Random(7)
    stories = [Story(rules, spoke(f"m{n}")) for n in range(MESSAGES)]
    due: list[tuple[float, int]] = [(0.0, n) for n in range(MESSAGES)]
    done: dict[int, float] = {}
    while due:
        now, n = heapq.heappop(due)
        story = stories[n]
        run = story.state.running
        assert run is not None
        problem = provider.ask(n, now)
        if problem is None:
            story.hears(answer(1, 1, "here"))
            done[n] = now
            continue
        story.hears(_failed(problem, run.attempt, chance.random(), now))
        (effect,) = _asks(story.effects)
        heapq.heappush(due, (now + (effect.wait_s if isinstance(effect, AskModelLater) else 0.0), n))
    assert len(done) == MESSAGES
    assert all(story.told() == ["here"] for story in stories)
    assert max(done.values()) <= DOWN_S + 180
    assert max(provider.tries.values()) <= 8
    after_first = [second for second in provider.asked if second > 0]
    probes = Counter(int(second) for second in after_first if second < DOWN_S)
    assert max(probes.values()) <= 1, "a probe a second at the most while it is down"
    back = Counter(int(second) for second in after_first if second >= DOWN_S)
    assert max(back.values()) <= MESSAGES / 10, "they come back one after the other"


def _asks(effects: tuple[Effect, ...]) -> list[AskModel | AskModelLater]:
    return [e for e in effects if isinstance(e, AskModel | AskModelLater)]


def _failed(problem: Failure, attempt: int, chance: float, now: float) -> m.ModelFailed:
    return m.ModelFailed(
        turn=1,  # type: ignore[arg-type]
        call=1,
        attempt=attempt,
        failure=problem,
        chance=chance,
        began_at=START,
        at=at(now),
    )


def test_W03_what_cannot_be_mended_is_not_tried_again() -> None:
    for kind in (FailureKind.AUTH, FailureKind.NOT_FOUND, FailureKind.INVALID_REQUEST, FailureKind.BILLING):
        story = Story(Rules(), spoke("m1"), failure(1, 1, kind))
        assert story.state.running is None
        assert not _asks(story.effects)


def test_W03_a_provider_that_stays_down_is_given_up_aloud() -> None:
    story = Story(Rules(), spoke("m1"))
    for _ in range(200):
        if story.state.running is None:
            break
        held = Failure(kind=FailureKind.OVERLOADED, detail="x", retry_after_s=30, sent=False, model=MODEL)
        story.hears(_failed(held, 1, 0.5, 0))
    assert "has been down" in story.told()[0]
