"""What the model reads of what people did: history entries made from accepted messages. Pure."""

from actors.session import quoting
from actors.session.facts import MessageAccepted
from messages.blocks import TextBlock, UserBlock, UserEntry
from messages.gateway import ChatType, Surroundings

SUMMARY = "[system] The earlier part of this conversation, summed up:\n\n{summary}"
FIRST_WORDS = 60
"""Characters of a first message that stand for a title."""


def user_entry(message: MessageAccepted, told: Surroundings | None = None) -> UserEntry:
    """Return what the model reads of a message.

    Where several people speak, a line with the speaker stands before it. Before that
    comes what was said and done around it, quoted; the place's names only when they
    are not those that the model was `told` last.
    """
    origin = message.origin
    surroundings = message.surroundings if message.surroundings != told else None
    if origin.chat_type is ChatType.DM:
        surroundings = None  # a direct message is where it is
    context = quoting.context_block(message.overheard, message.quote, surroundings)
    text = message.text
    if origin.chat_type is not ChatType.DM:
        text = f"{quoting.speaker_line(message.author)}\n{quoting.spoken(text)}".rstrip("\n")
    if context:
        text = f"{context}\n{text}".rstrip("\n")
    blocks: tuple[UserBlock, ...] = (TextBlock(text=text),) if text else ()
    return UserEntry(blocks=(*blocks, *map(_attached, message.attachments)))


def _attached(block: UserBlock) -> UserBlock:
    """A note that stands for a file or a forward holds names that strangers chose: no line of it is ours."""
    if not isinstance(block, TextBlock) or (text := quoting.spoken(block.text)) == block.text:
        return block
    return TextBlock(text=text)


def summary_entry(summary: str) -> UserEntry:
    """Return what stands for the older part of a conversation."""
    return UserEntry(blocks=(TextBlock(text=SUMMARY.format(summary=summary)),))


def first_words(text: str) -> str:
    """Return the beginning of a text, cut between words, to stand for a title."""
    shown = quoting.visible(text[: FIRST_WORDS * 20])
    if len(shown) <= FIRST_WORDS:
        return shown
    cut = shown[: FIRST_WORDS - 1]
    head, _, tail = cut.rpartition(" ")
    return f"{head if len(tail) < FIRST_WORDS // 2 and head else cut}…"
