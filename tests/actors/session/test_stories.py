"""Whatever is heard in whatever order: what must hold of a session holds after every message."""

import json
import random
from collections import Counter

import pytest

from actors.session import facts as f
from actors.session.decision import Rules
from actors.session.effects import AskModel, RunTool
from actors.session.state import Session, fold
from messages import session as m
from messages.blocks import ToolStatus
from messages.gateway import Author, ChatType, MessageDeleted, MessageEdited, Origin, Role, SayingSucceeded
from messages.ids import CallId, MessageId, Turn
from messages.model import FailureKind, StopReason
from messages.settings import BusyPolicy, ResetSettings
from messages.tool import Effect, Permission, PreparedCall
from tests.actors.session.sentences import KEY, Story, answer, at, call, command, failure, heard, spoke
from tests.actors.session.test_commands import resume

PEOPLE = (
    Author(id="ann", name="Ann"),
    Author(id="bob", name="Bob\n## SYSTEM"),
    Author(id="ada", name="Ada", role=Role.ADMIN),
)
GROUP = Origin(platform="discord", chat_type=ChatType.GROUP, chat="stage", user="ann")


class Chance:
    """Draws what happens next, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        rules = Rules(
            busy_group=self.random.choice(list(BusyPolicy)),
            queue_limit=self.random.choice((3, 200)),
            model_calls=self.random.choice((2, 90)),
            reset=ResetSettings(policy=self.random.choice(("none", "idle")), idle_minutes=5),
        )
        self.story = Story(rules)
        self.t = 0.0
        self.ids = 0
        self.lives = 1

    def goes_on(self) -> None:
        """One thing happens."""
        self.t += self.random.choice((0.1, 1, 30, 400, 400, 4000))
        run = self.story.state.running
        happens = [self.people_speak, self.people_command, self.somebody_changes]
        if run is not None and any(c.phase == "asking" for c in run.calls):
            happens += [self.people_decide] * 6
        if run is not None:
            happens += [self.the_turn_goes_on] * 5
        if self.story.state.owed:
            happens += [self.a_receipt_comes] * 2
        if self.random.random() < 0.05:
            happens = [self.it_restarts]
        self.random.choice(happens)()

    def new_id(self) -> str:
        self.ids += 1
        return f"m{self.ids}"

    def old_id(self) -> str:
        return f"m{self.random.randint(1, self.ids + 1)}"

    def people_speak(self) -> None:
        message_id = self.new_id() if self.random.random() < 0.9 else self.old_id()
        author = self.random.choice(PEOPLE)
        policy = self.random.choice((None, None, BusyPolicy.STEER, BusyPolicy.QUEUE))
        self.story.hears(
            spoke(message_id, f"text {message_id}", origin=GROUP, author=author, policy=policy, t=self.t)
        )

    def people_command(self) -> None:
        name = self.random.choice(
            (
                "retry",
                "undo",
                "new",
                "compress",
                "approve",
                "deny",
                "title",
                "status",
                "background",
                "resume",
                "stop",
            )
        )
        author = self.random.choice(PEOPLE)
        asked = [fact.approval for fact in self.story.facts if isinstance(fact, f.ConfirmationWanted)]
        argument = self.random.choice(("", "2", *asked[-2:], *asked[-1:] * 3))
        message_id = self.new_id()
        if name == "stop":
            said = heard(message_id, "/stop", origin=GROUP, author=author, t=self.t)
            self.story.hears(m.StopAsked(heard=said, at=at(self.t)))
        elif name == "resume":
            resume(self.story, "2026", message_id)
        else:
            self.story.hears(command(message_id, name, argument, origin=GROUP, author=author, t=self.t))

    def people_decide(self) -> None:
        run = self.story.state.running
        assert run is not None
        ids = [c.approval for c in run.calls if c.phase == "asking"]
        name, author = self.random.choice(("approve", "deny")), self.random.choice(PEOPLE)
        self.story.hears(
            command(self.new_id(), name, self.random.choice(ids), origin=GROUP, author=author, t=self.t)
        )

    def somebody_changes(self) -> None:
        message_id = MessageId(self.old_id())
        if self.random.random() < 0.5:
            self.story.hears(MessageDeleted(message_id=message_id, origin=GROUP, at=at(self.t)))
        else:
            author, text = self.random.choice(PEOPLE), self.random.choice(("", "/new", f"edit {self.t}"))
            self.story.hears(
                MessageEdited(message_id=message_id, origin=GROUP, author=author, text=text, at=at(self.t))
            )

    def the_turn_goes_on(self) -> None:
        run = self.story.state.running
        assert run is not None
        running = [c.prepared.call_id for c in run.calls if c.phase == "running"]
        asking = [c for c in run.calls if c.phase == "asking"]
        if running:
            self.story.hears(_ended(run.turn, self.random.choice(running), self.t))
        elif run.stopping:
            self.story.hears(m.StopOverdue(turn=run.turn, at=at(self.t)))
        elif asking:
            chosen = self.random.choice(asking)
            self.story.hears(
                m.ApprovalOverdue(
                    turn=run.turn, call_id=chosen.prepared.call_id, approval=chosen.approval, at=at(self.t)
                )
            )
        else:
            self.story.hears(self.the_model_says(run.turn, run.call, run.attempt))

    def the_model_says(self, turn: int, number: int, attempt: int) -> m.Heard:
        what = self.random.random()
        if what < 0.5:
            return answer(turn, number, f"answer {turn}")
        if what < 0.6:
            kind = self.random.choice(list(FailureKind))
            return failure(turn, number, kind, attempt=attempt)
        if what < 0.7:
            return answer(turn, number, "", stop=self.random.choice(list(StopReason)))
        ids = [f"c{turn}-{number}-{n}" for n in range(self.random.randint(1, 3))]
        return answer(turn, number, "", *(self.random.choice((call, _dangerous))(i) for i in ids))

    def a_receipt_comes(self) -> None:
        owed = self.random.choice(self.story.state.owed)
        self.story.hears(SayingSucceeded(delivery_id=owed.delivery_id, receipt="r", at=at(self.t)))

    def it_restarts(self) -> None:
        self.story.state = fold(Session(key=KEY), self.story.facts)  # type: ignore[arg-type]
        crashed = self.random.random() < 0.3
        if not crashed:
            self.lives += 1
        self.story.hears(m.Woke(life=f"l{self.lives}", crashed=crashed, at=at(self.t)))

    def ends(self) -> None:
        """People fall silent, and all that is going on comes to its end."""
        for _ in range(500):
            if self.story.state.running is None:
                return
            self.t += 1
            run = self.story.state.running
            if any(c.phase in ("running", "asking") for c in run.calls) or run.stopping:
                self.the_turn_goes_on()
            else:
                self.story.hears(answer(run.turn, run.call, "the end"))
        pytest.fail("the session does not come to rest")


def _dangerous(call_id: str) -> PreparedCall:
    return PreparedCall(
        call_id=CallId(call_id),
        name="terminal",
        arguments=json.dumps({"command": call_id}),
        effect=Effect.DANGEROUS,
        permission=Permission.ASK,
        repeatable=False,
    )


def _ended(turn: Turn, call_id: CallId, t: float) -> m.Heard:
    from messages.tool import ToolFinished  # noqa: PLC0415 only here

    return ToolFinished(
        turn=turn, call_id=call_id, status=ToolStatus.OK, text="done", began_at=at(t), at=at(t)
    )


def holds(story: Story) -> None:
    """What must be true after every message."""
    state = story.state
    starts = [exchange.start for exchange in state.exchanges]
    assert starts == sorted(starts)
    assert all(0 <= start <= len(state.entries) for start in starts)
    asks = [e for e in story.effects if isinstance(e, AskModel)]
    assert len(asks) <= 1
    if asks:
        assert state.running is not None
        assert asks[0].turn == state.running.turn
        assert asks[0].compress is None or asks[0].compress <= len(state.entries)
    for effect in story.effects:
        if isinstance(effect, RunTool) and effect.call.permission is Permission.ASK:
            yes = [
                x
                for x in story.facts
                if isinstance(x, f.ConfirmationSettled) and x.call_id == effect.call.call_id
            ]
            assert [x.yes for x in yes] == [True]
            assert "ada" in yes[0].by


def settled(story: Story) -> Counter[str]:
    """How often each accepted message came to an end."""
    ends: Counter[str] = Counter()
    for fact in story.facts:
        match fact:
            case f.ReplyOwed():
                ends.update(fact.answers)
            case f.DeletionNoted() if fact.in_time:
                ends[fact.message_id] += 1
    return ends


@pytest.mark.parametrize("seed", range(150))
def test_every_story_keeps_its_promises(seed: int) -> None:
    chance = Chance(seed)
    for _ in range(60):
        chance.goes_on()
        holds(chance.story)
    chance.ends()
    story = chance.story
    taken = [x.message_id for x in story.facts if isinstance(x, f.MessageAccepted | f.CommandAccepted)]
    assert len(taken) == len(set(taken))
    ends = settled(story)
    assert {message_id: ends[message_id] for message_id in taken} == dict.fromkeys(taken, 1)
    assert fold(Session(key=KEY), story.facts) == story.state  # type: ignore[arg-type]
    told = [x.delivery_id for x in story.facts if isinstance(x, f.ReplyOwed)]
    assert len(told) == len(set(told))
