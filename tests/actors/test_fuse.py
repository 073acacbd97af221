"""The rehearsal of a power cut: at which instant the fuse blows, and what is durable then."""

import pytest

from actors.errors import StartError
from actors.fuse import Fuse, FusedJournal, read_fuse, with_fuse
from actors.session import facts as f
from messages.ids import StreamId
from store.memory_store import MemoryJournal
from tests.fakes.clock import ManualClock

STREAM = StreamId("session:x")


class PowerCutError(Exception):
    """Stands for SIGKILL."""


def cut() -> None:
    raise PowerCutError


def chosen(turn: int) -> tuple[f.SessionFact, ...]:
    clock = ManualClock()
    return (f.ModelChosen(model=None, at=clock.now()), f.Steered(turn=turn, message_ids=(), at=clock.now()))  # type: ignore[arg-type]


@pytest.mark.parametrize(("when", "durable"), [("before", 2), ("after", 4)])
@pytest.mark.parametrize("kind", ["append", "steered"])
async def test_it_blows_before_or_after_the_append_it_names(when: str, kind: str, durable: int) -> None:
    kept = MemoryJournal(ManualClock())
    journal = FusedJournal(kept, Fuse(when, kind, 2, cut))
    await journal.append(STREAM, 0, chosen(1))
    with pytest.raises(PowerCutError):
        await journal.append(STREAM, 2, chosen(2))
    assert len(await journal.read(STREAM)) == durable
    assert await journal.owed() == ()


async def test_other_kinds_pass() -> None:
    journal = FusedJournal(MemoryJournal(ManualClock()), Fuse("before", "reply_owed", 1, cut))
    assert len(await journal.append(STREAM, 0, chosen(1))) == 2


@pytest.mark.parametrize(
    "spec", ["now", "before:append", "before::1", "after:append:0", "during:append:1", "a:b:c"]
)
def test_nonsense_is_said_before_anything_starts(spec: str) -> None:
    with pytest.raises(StartError) as caught:
        read_fuse(spec)
    assert "CALLBOARD_CHAOS" in caught.value.what
    assert "before:KIND:N" in caught.value.remedy


def test_without_a_spec_nothing_is_wrapped() -> None:
    journal = MemoryJournal(ManualClock())
    assert with_fuse(journal, read_fuse("")) is journal
    assert isinstance(with_fuse(journal, read_fuse("after:append:3")), FusedJournal)
