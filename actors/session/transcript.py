"""A session's facts as people read them: one pure function from facts to lines."""

from collections.abc import Iterable

from actors.session import facts as f
from messages.blocks import TextBlock
from messages.gateway import TranscriptEntry, text_of
from store.journal import Recorded

LONGEST_RESULT = 4000
"""Characters of a tool's result that are shown; the journal has all that the model saw."""


def lines(recorded: Iterable[Recorded]) -> tuple[TranscriptEntry, ...]:
    """Return what each fact adds to the transcript; most add nothing."""
    return tuple(line for line in map(line_of, recorded) if line is not None)


def current(recorded: Iterable[Recorded]) -> tuple[Recorded, ...]:
    """Return the facts of the conversation that is open now: those since the last reset.

    What waited at the reset was said before it and is part of neither.
    """
    facts = tuple(recorded)
    for i in range(len(facts) - 1, -1, -1):
        if isinstance(facts[i].fact, f.SessionOpened | f.HistoryErased):
            return facts[i:]
    return facts


def line_of(recorded: Recorded) -> TranscriptEntry | None:  # one arm a fact that shows
    """Return the line that a fact is, if it is one."""
    fact, seq = recorded.fact, recorded.seq
    match fact:
        case f.SessionOpened() if fact.parent:
            return TranscriptEntry(seq=seq, role="notice", text="", at=fact.at, status="new")
        case f.MessageAccepted():
            return TranscriptEntry(
                seq=seq,
                role="user",
                text=fact.text,
                at=fact.at,
                message_id=fact.message_id,
                author=fact.author.name or fact.author.id,
            )
        case f.CommandAccepted():
            return TranscriptEntry(
                seq=seq,
                role="user",
                text=f"/{fact.name} {fact.argument}".strip(),
                at=fact.at,
                message_id=fact.message_id,
                author=fact.author.name or fact.author.id,
                status="command",
            )
        case f.EditNoted() | f.DeletionNoted() | f.ExchangesUndone() | f.AnswerDiscarded():
            return _second_thought(seq, fact)
        case f.ContextCompacted() | f.ConversationResumed():
            return _what_is_known(seq, fact)
        case f.ModelCallAnswered() if fact.calls:
            return _interim(seq, fact)
        case f.ToolCallEnded():
            return TranscriptEntry(
                seq=seq,
                role="tool",
                text=fact.text[:LONGEST_RESULT],
                at=fact.at,
                turn=fact.turn,
                name=fact.name,
                status=fact.status.value,
            )
        case f.ReplyOwed():
            return TranscriptEntry(
                seq=seq,
                role="notice" if fact.notice else "assistant",
                text=text_of(fact.parts),
                at=fact.at,
                turn=fact.turn,
                delivery_id=fact.delivery_id,
                answers=fact.answers,
                model=fact.model,
                status=fact.status,
                usage=fact.usage,
            )
        case f.TurnResumed():
            text = "Interrupted by a restart of the program; taken up again."
            return TranscriptEntry(
                seq=seq, role="notice", text=text, at=fact.at, turn=fact.turn, status="interrupted"
            )
        case f.HistoryErased():
            text = "The history of this conversation was deleted."
            return TranscriptEntry(
                seq=seq, role="notice", text=text, at=fact.at, answers=fact.message_ids, status="erased"
            )
        case f.TurnEnded() if fact.reason == "interrupted":
            text = "Interrupted by a new message; both are answered together."
            return TranscriptEntry(
                seq=seq, role="notice", text=text, at=fact.at, turn=fact.turn, status="interrupted"
            )
        case _:
            return None


def _second_thought(
    seq: int, fact: f.EditNoted | f.DeletionNoted | f.ExchangesUndone | f.AnswerDiscarded
) -> TranscriptEntry:
    """What people changed or took back: what was said stays above, as it was."""
    message_id = None
    match fact:
        case f.EditNoted():
            status, message_id = "edited", fact.message_id
            when = "" if fact.in_time else ", after it was taken up"
            text = f"A message was edited{when}. It is now: {fact.text}"
        case f.DeletionNoted():
            status, message_id = "deleted", fact.message_id
            text = (
                "A message was deleted before it was taken up; it is not answered."
                if fact.in_time
                else "A message was deleted."
            )
        case f.ExchangesUndone():
            status = "undone"
            text = (
                f"The last {len(fact.turns)} exchange(s) were taken back: the model no longer knows of them."
            )
        case f.AnswerDiscarded():
            status, text = "undone", "The last answer was taken back; another one is made."
    return TranscriptEntry(
        seq=seq, role="notice", text=text, at=fact.at, message_id=message_id, status=status
    )


def _what_is_known(seq: int, fact: f.ContextCompacted | f.ConversationResumed) -> TranscriptEntry:
    """What the model knows of what was said before."""
    if isinstance(fact, f.ContextCompacted):
        text = f"From here on, the model knows the older part as this summary:\n\n{fact.summary}"
        return TranscriptEntry(
            seq=seq, role="notice", text=text, at=fact.at, turn=fact.turn, status="compressed"
        )
    title = f" {fact.title!r}" if fact.title else ""
    text = f"The conversation{title} ({fact.resumed}) goes on."
    return TranscriptEntry(seq=seq, role="notice", text=text, at=fact.at, status="resumed")


def _interim(seq: int, fact: f.ModelCallAnswered) -> TranscriptEntry | None:
    """What the model said before it called its tools."""
    text = "\n\n".join(block.text for block in fact.blocks if isinstance(block, TextBlock)).strip()
    if not text:
        return None
    return TranscriptEntry(
        seq=seq, role="assistant", text=text, at=fact.at, turn=fact.turn, status="interim", model=fact.model
    )
