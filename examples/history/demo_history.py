"""Make a data folder with two weeks of invented conversations, to try queries on.

    python examples/history/demo_history.py ./demo
    callboard --home ./demo insights --days 36500
    callboard --home ./demo query "SELECT * FROM usage_daily ORDER BY day LIMIT 5"

Nothing is asked of a model. The facts come from the rules that real sessions follow
(`actors.session.transition.decide`), so the history is one that could have happened.
The same seed gives the same history.
"""

import argparse
import asyncio
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from actors.clock import Alarm, WallClock
from actors.gateway.session_key import key_of
from actors.session.decision import Rules
from actors.session.effects import AskModel, AskModelLater, Deliver, Effect, RunTool
from actors.session.facts import SessionFact
from actors.session.state import Session, fold
from actors.session.transition import decide
from messages.blocks import TextBlock, ToolCallBlock, ToolStatus
from messages.gateway import Author, ChatType, MessageReceived, Origin, SayingSucceeded
from messages.ids import CallId, MessageId, StreamId
from messages.model import Failure, FailureKind, ModelRef, ModelReply, StopReason, Usage
from messages.session import Heard, ModelAnswered, ModelFailed, RetryDue, UserSpoke
from messages.settings import StoreSettings
from messages.system import IncidentHappened, ProcessStarted, ProcessStopped
from messages.tool import Effect as ToolEffect
from messages.tool import PreparedCall, ToolFinished
from store.journal import Journal
from store.store import Store

END = datetime(2026, 3, 1, 18, 0, tzinfo=UTC)
DAYS = 14

MODELS = (
    (ModelRef(provider="anthropic", name="claude-sonnet-4-5"), 5),
    (ModelRef(provider="openai", name="gpt-4.1-mini"), 4),
    (ModelRef(provider="local", name="SmolLM2-135M-Instruct"), 2),
    (ModelRef(provider="lab", name="prototype-7"), 1),
)
PEOPLE = ("Ann", "Bo", "Chidi", "Dana", "Emre", "Fumiko", "Gil", "Hanna")
PLACES = (
    ("discord", ChatType.GROUP, "theatre"),
    ("discord", ChatType.DM, None),
    ("telegram", ChatType.DM, None),
    ("slack", ChatType.GROUP, "props"),
    ("web", ChatType.DM, None),
)
LINES = (
    ("When does the rehearsal begin?", "At ten, on the small stage."),
    ("Who has the key to the workshop?", "Dana signed it out yesterday; the list has it."),
    ("Please count the chairs in the foyer plan.", "There are 48 of them."),
    ("Write a short notice about the cast change.", "Tonight the part of Olivia is read by Hanna."),
    ("What is the weather for the open-air evening?", "Dry until nine, then showers are likely."),
    ("Summarise the minutes of Monday.", "Three points: the lift, the budget, the new lamps."),
    ("明日の稽古は何時ですか", "十時からです。"),
    ("Is the fog machine allowed again?", "Yes, below four minutes at a time."),
)
TOOLS = ("read_file", "fetch_url", "run_command", "session_search")


class SetClock:
    """A clock that is set by whoever tells the story; everything but `now` is the wall's."""

    def __init__(self) -> None:
        self.at = END
        self._wall = WallClock()

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self._wall.monotonic()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Alarm:
        return self._wall.call_later(seconds, callback)

    async def sleep(self, seconds: float) -> None:
        await self._wall.sleep(seconds)


@dataclass
class Conversation:
    """One session of the story."""

    state: Session
    length: int = 0


class Story:
    """Plays messages, models, tools and platforms to the rules of sessions, and writes what they decide."""

    def __init__(self, journal: Journal, clock: SetClock, chance: random.Random) -> None:
        self._journal = journal
        self._clock = clock
        self._chance = chance
        self._conversations: dict[str, Conversation] = {}
        self._system = 0
        self._life = ""
        self._said = 0

    async def lives(self, at: datetime, number: int) -> None:
        """Let a life of the process begin; some end in a crash."""
        self._clock.at = at
        life = f"{at:%Y%m%dT%H%M%S}-{4000 + number}"
        last, self._life = self._life, life
        facts: list[ProcessStarted | ProcessStopped | IncidentHappened] = []
        if last and number % 3 == 1:
            facts.append(
                IncidentHappened(
                    life=last,
                    child="discord:main",
                    what="crashed",
                    detail="ConnectionResetError: connection lost",
                    at=at,
                )
            )
        elif last:
            facts.append(ProcessStopped(life=last, at=at))
        facts.append(
            ProcessStarted(life=life, version="0.1.0", pid=4000 + number, at=at + timedelta(seconds=2))
        )
        await self._journal.append(StreamId("system"), self._system, facts)
        self._system += len(facts)

    async def says(self, person: str, place: tuple[str, ChatType, str | None], at: datetime) -> None:
        """Let somebody say something, and everything follow from it."""
        platform, chat_type, chat = place
        user = f"{platform}-{person.lower()}"
        origin = Origin(platform=platform, chat_type=chat_type, chat=chat or user, user=user)
        text, answer = self._chance.choice(LINES)
        self._said += 1
        self._clock.at = at
        heard = MessageReceived(
            message_id=MessageId(f"m{self._said}"),
            origin=origin,
            author=Author(id=user, name=person),
            text=text,
            at=at,
        )
        key = key_of(origin)
        talk = self._conversations.setdefault(key, Conversation(Session(key=key)))
        model = self._chance.choices([m for m, _ in MODELS], [weight for _, weight in MODELS])[0]
        waiting: list[Heard] = [UserSpoke(heard=heard)]
        while waiting:
            effects = await self._hear(talk, waiting.pop(0))
            for effect in effects:
                waiting += self._performed(effect, model, answer)

    async def _hear(self, talk: Conversation, heard: Heard) -> tuple[Effect, ...]:
        decision = decide(talk.state, heard, Rules(pulled=frozenset({"web"})))
        facts: tuple[SessionFact, ...] = decision.facts
        if facts:
            talk.state = fold(talk.state, facts)
            stream = StreamId(f"session:{talk.state.key}")
            await self._journal.append(stream, talk.length, facts, owing=talk.state.owing)
            talk.length += len(facts)
        return decision.effects

    def _performed(self, effect: Effect, model: ModelRef, answer: str) -> Iterator[Heard]:
        match effect:
            case AskModel():
                yield self._model_says(effect, model, answer)
            case AskModelLater():
                self._pass(effect.wait_s)
                yield RetryDue(turn=effect.turn, call=effect.call, attempt=effect.attempt, at=self._clock.at)
            case RunTool():
                began = self._clock.at
                self._pass(self._chance.expovariate(2.0))
                status = self._chance.choices(
                    (ToolStatus.OK, ToolStatus.ERROR, ToolStatus.TIMED_OUT), (18, 2, 1)
                )
                yield ToolFinished(
                    turn=effect.turn,
                    call_id=effect.call.call_id,
                    status=status[0],
                    text="48" if status[0] is ToolStatus.OK else "it did not work",
                    began_at=began,
                    at=self._clock.at,
                )
            case Deliver():
                self._pass(self._chance.uniform(0.05, 0.4))
                yield SayingSucceeded(
                    delivery_id=effect.owed.delivery_id, receipt=f"post-{self._said}", at=self._clock.at
                )
            case _:
                pass

    def _model_says(self, asked: AskModel, model: ModelRef, answer: str) -> ModelAnswered | ModelFailed:
        began = self._clock.at
        if self._chance.random() < 0.06 and asked.attempt == 1:
            self._pass(1.0)
            failure = Failure(
                kind=FailureKind.OVERLOADED, detail="the service is overloaded", status=529, model=model
            )
            return ModelFailed(
                turn=asked.turn,
                call=asked.call,
                attempt=asked.attempt,
                failure=failure,
                chance=self._chance.random(),
                began_at=began,
                at=self._clock.at,
            )
        self._pass(self._chance.lognormvariate(0.4, 0.5))
        calls = self._calls(asked) if asked.call == 1 and self._chance.random() < 0.3 else ()
        blocks = [ToolCallBlock(call_id=c.call_id, name=c.name, arguments=c.arguments) for c in calls]
        reply = ModelReply(
            blocks=tuple(blocks) or (TextBlock(text=answer),),
            stop=StopReason.TOOL_CALLS if calls else StopReason.END,
            raw_stop="tool_use" if calls else "end_turn",
            model=model,
            usage=self._usage(model),
            first_token_ms=round((self._clock.at - began).total_seconds() * 400, 1),
        )
        return ModelAnswered(
            turn=asked.turn, call=asked.call, reply=reply, calls=calls, began_at=began, at=self._clock.at
        )

    def _calls(self, asked: AskModel) -> tuple[PreparedCall, ...]:
        name = self._chance.choice(TOOLS)
        return (
            PreparedCall(
                call_id=CallId(f"call-{asked.turn}-{asked.call}"),
                name=name,
                arguments=json.dumps({"what": "foyer"}),
                effect=ToolEffect.DANGEROUS if name == "run_command" else ToolEffect.READ,
            ),
        )

    def _usage(self, model: ModelRef) -> Usage:
        if model.provider == "lab" and self._chance.random() < 0.5:
            return Usage()  # it does not always count
        read = self._chance.randint(400, 6000)
        cached = int(read * 0.6) if model.provider == "anthropic" else 0
        return Usage(
            input_tokens=read - cached,
            output_tokens=self._chance.randint(20, 400),
            cache_read_tokens=cached or None,
        )

    def _pass(self, seconds: float) -> None:
        self._clock.at += timedelta(seconds=round(seconds, 3))


async def make(home: Path, *, days: int = DAYS, per_day: int = 24, seed: int = 1) -> Path:
    """Write the history into a new database in the folder; return the database. Raises FileExistsError."""
    path = home / "callboard.duckdb"
    if path.exists():
        raise FileExistsError(f"{path} is there already; name another folder")
    chance = random.Random(seed)  # noqa: S311 a story, not a secret
    clock = SetClock()
    store = Store.open(path, StoreSettings(), clock, {})
    try:
        story = Story(store.journal, clock, chance)
        for day in range(days):
            morning = END - timedelta(days=days - day)
            await story.lives(morning, day)
            minutes = sorted(chance.sample(range(5, 1400), per_day + chance.randint(-6, 6)))
            for minute in minutes:
                at = morning + timedelta(minutes=minute, seconds=chance.randint(0, 59))
                await story.says(chance.choice(PEOPLE), chance.choice(PLACES), at)
    finally:
        await store.close()
    return path


def main() -> None:
    """Make the folder that is named on the command line."""
    parser = argparse.ArgumentParser(description="Make a data folder with invented conversations.")
    parser.add_argument("home", type=Path, help="a new folder")
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(asyncio.run(make(arguments.home, days=arguments.days, seed=arguments.seed)))


if __name__ == "__main__":
    main()
