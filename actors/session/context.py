"""History → request: what fits into the model's window, cut where it harms least. Pure.

The journal keeps everything; only the outgoing copy is cut. Whole exchanges are
left out from the oldest on, in steps of a quarter of the window, so that the
beginning of the request stays the same over many turns and providers can cache it.
"""

from collections.abc import Sequence

from messages.blocks import Entry, ResultsEntry, TextBlock, ToolResultBlock, UserBlock, UserEntry
from messages.model import ModelRef, ModelRequest, ToolSchema

LEFT_OUT = "[system] Earlier parts of this conversation are left out here; they do not fit."
CLIPPED = "\n[… {count:,} characters left out …]\n"
TOKENS_PER_MEDIUM = 1500
"""What an image or a file costs, roughly, over providers."""


def build(
    entries: Sequence[Entry],
    *,
    model: ModelRef,
    system: str,
    tools: Sequence[ToolSchema],
    window: int,
    max_output_tokens: int,
    shrinks: int = 0,
) -> ModelRequest:
    """Return the request whose estimate fits the window with the output reserve.

    Each of `shrinks` halves what the entries may take: an estimate is only an
    estimate, and the provider has said that the last request was too long.
    """
    reserve = min(max_output_tokens, window // 4)
    fixed = estimate(system) + sum(estimate(t.description) + estimate(t.parameters) + 20 for t in tools)
    room = max((window - reserve - fixed) // (2**shrinks), 256)
    return ModelRequest(
        model=model,
        system=system,
        entries=fit(entries, room),
        tools=tuple(tools),
        max_output_tokens=reserve,
    )


def estimate(text: str) -> int:
    """Estimate a text's tokens, rather too high: 3.5 ASCII characters a token, 3 bytes of others."""
    if text.isascii():
        return len(text) * 2 // 7 + 1
    return len(text.encode("utf-8", "surrogatepass")) // 3 + 1


def size(entry: Entry) -> int:
    """Estimate an entry's tokens."""
    if isinstance(entry, ResultsEntry):
        return sum(estimate(result.text) + 10 for result in entry.results)
    total = 5
    for block in entry.blocks:
        match block.kind:
            case "text" | "thinking":
                total += estimate(block.text)
            case "tool_call":
                total += estimate(block.arguments) + 15
            case _:
                total += TOKENS_PER_MEDIUM
    return total


def fit(entries: Sequence[Entry], room: int) -> tuple[Entry, ...]:
    """Return the entries that fit into `room` tokens: the newest, from a person's words on."""
    sizes = [size(entry) for entry in entries]
    total = sum(sizes)
    if total <= room:
        return tuple(entries)
    step = max(room // 4, 1)
    must_go = -(-(total - room) // step) * step
    gone = 0
    last = _last_of_people(entries)
    start = 0
    for i, entry in enumerate(entries[: last + 1]):
        if gone >= must_go and isinstance(entry, UserEntry):
            start = i
            break
        gone += sizes[i]
        start = i
    kept = tuple(entries[start:])
    return _clip((UserEntry(blocks=(TextBlock(text=LEFT_OUT),)), *kept) if start else kept, room)


def _last_of_people(entries: Sequence[Entry]) -> int:
    for i in range(len(entries) - 1, -1, -1):
        if isinstance(entries[i], UserEntry):
            return i
    return 0


def _clip(entries: tuple[Entry, ...], room: int) -> tuple[Entry, ...]:
    """Shorten the longest texts of results and of people until what must stay fits."""
    if sum(map(size, entries)) <= room:
        return entries
    # The largest share of a text such that all fit: found by halving, which ends at small texts.
    share = room
    while share > 64 and sum(size(_shortened(e, share)) for e in entries) > room:
        share //= 2
    return tuple(_shortened(entry, share) for entry in entries)


def _shortened(entry: Entry, most: int) -> Entry:
    if isinstance(entry, ResultsEntry):
        return entry.model_copy(update={"results": tuple(_shorter_result(r, most) for r in entry.results)})
    if isinstance(entry, UserEntry):
        return entry.model_copy(update={"blocks": tuple(_shorter_block(b, most) for b in entry.blocks)})
    return entry


def _shorter_result(result: ToolResultBlock, most: int) -> ToolResultBlock:
    return result.model_copy(update={"text": clip(result.text, most)})


def _shorter_block(block: UserBlock, most: int) -> UserBlock:
    if isinstance(block, TextBlock):
        return block.model_copy(update={"text": clip(block.text, most)})
    return block


def clip(text: str, most: int) -> str:
    """Return the head and the tail of a text, so that it is about `most` tokens long."""
    tokens = estimate(text)
    if tokens <= most:
        return text
    keep = max(len(text) * most // tokens - 60, 40)
    head, tail = keep * 2 // 3, keep // 3
    return text[:head] + CLIPPED.format(count=len(text) - head - tail) + text[-tail:]
