"""A journal that is away is not held against any message: they wait, and are told when it takes too long."""

from actors.chronicle import STREAM, Chronicle
from actors.runtime import ActorSystem
from actors.session import facts as f
from actors.session.directory import BUSY, JOURNAL_PATIENCE_S
from messages.gateway import Acceptance, Receipt
from store.journal import JournalUnavailableError
from store.memory_store import MemoryJournal
from tests.fakes.clock import ManualClock
from tests.store.test_store import incident
from tests.walks.stage import Stage

AWAY = 6
"""So many appends in a row find the journal away."""


async def test_a_message_waits_for_the_journal_and_is_answered_once_in_its_turn() -> None:
    async with Stage() as stage:
        stage.models.otherwise(lambda request: "yes")
        await stage.says("zero")
        for _ in range(AWAY):
            stage.journal.will_fail_next_append(JournalUnavailableError("the disk is full"))
        for n in range(3):
            stage.hands_in(stage.message(f"say {n}"))
        await stage.clock.advance(JOURNAL_PATIENCE_S - 1)
        accepted = [m.text for m in await stage.of_kind(f.MessageAccepted)]
        assert accepted == ["zero", "say 0", "say 1", "say 2"]
        assert await stage.of_kind(f.MessageGivenUp) == []
        assert stage.platform.texts() == ["yes"] * 4
        assert stage.incidents == []


async def test_an_answer_is_not_lost_when_the_journal_is_away_as_it_comes() -> None:
    async with Stage() as stage:
        stage.models.will_hang()
        await stage.says("think")
        for _ in range(AWAY):
            stage.journal.will_fail_next_append(JournalUnavailableError("the store is down"))
        stage.models.otherwise(lambda request: "thought")
        stage.models.release()
        await stage.clock.advance(120)
        await stage.settle()
        assert stage.platform.texts() == ["thought"]
        assert stage.state() == "idle"
        assert await stage.of_kind(f.MessageGivenUp) == []


async def test_when_it_takes_too_long_people_are_told_and_nothing_is_taken() -> None:
    async with Stage() as stage:
        stage.models.otherwise(lambda request: "yes")
        await stage.says("zero")
        stage.journal.fuse(0)
        receipts: list[Receipt] = []
        waiting = [stage.hub.expect(stage.key(), stage.message(f"say {n}").message_id) for n in range(3)]
        for n in range(3):
            stage.hands_in(stage.message(f"say {n}", message_id=f"m{n + 2}"))
        await stage.clock.advance(3 * JOURNAL_PATIENCE_S)
        receipts = [receipt.result() for receipt in waiting]
        assert [(r.acceptance, r.why) for r in receipts] == [(Acceptance.REFUSED, BUSY)] * 3
        stage.journal.mend()
        await stage.clock.advance(60)
        assert [m.text for m in await stage.of_kind(f.MessageAccepted)] == ["zero"]
        await stage.says("again")
        assert stage.platform.texts() == ["yes", "yes"]
        assert stage.incidents == []


async def test_the_diary_waits_for_the_journal_and_forgets_nothing() -> None:
    clock = ManualClock()
    journal = MemoryJournal(clock)
    system = ActorSystem(clock)
    diary = Chronicle.start(system, journal)
    for _ in range(AWAY):
        journal.will_fail_next_append(JournalUnavailableError("the store is down"))
    noted = [incident(str(number)) for number in range(3)]
    for fact in noted:
        diary.tell(fact)
    await clock.advance(AWAY + 1)
    assert list(journal.facts(STREAM)) == noted
    assert system.stats.crashes == 0
    await system.stop_all()
