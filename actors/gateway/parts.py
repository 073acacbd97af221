"""What a reply becomes on a platform: the posts it is cut into, none when there is nothing to post. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from actors.gateway.chunks import SMALLEST_LIMIT, Unit, split
from actors.gateway.silence import heard_by_people
from actors.supervision import Backoff
from messages import delivery as d
from messages.blocks import FileBlock
from messages.gateway import Part, Say
from messages.settings import UnknownOutcome

CUT = "\n\n(Cut here: {left} more characters. The whole answer is in the history: {key})"
COMMANDS = "\n\n({choices})"
"""What a platform without buttons shows in their place."""
NO_FILES = "(The file {name} cannot be sent here. It is kept as {path}.)"
TOO_LARGE = "(The file {name} is too large to be sent here: {size:,} bytes, and {most:,} are allowed. It is kept as {path}.)"
LEFT_OUT = "(The file {name} could not be sent here: {why}. It is kept as {path}.)"
ATTACHED = "(This answer is long: the whole of it is in the file {name}.)"
BACKOFF = Backoff(first_s=1.0, most_s=60.0)


@dataclass(frozen=True, slots=True)
class OutboxRules:
    """What the platform can do, and what the operator set."""

    limit: int = 4000
    unit: Unit = Unit.CHARACTERS
    files: bool = False
    file_bytes: int | None = None
    """The largest file that may be posted; None: no limit is known."""
    caption: int | None = None
    """How long the text beside a file may be, in `unit`; None: as any other."""
    buttons: bool = False
    splits_itself: bool = False
    idempotency_key: bool = False
    key_valid_s: float | None = None
    """How long the platform remembers a key; None: for ever."""
    history: bool = False
    unknown_outcome: UnknownOutcome = "send_again"
    """Where neither a key nor the history can tell."""
    at_once: int = 8
    most_parts: int = 10
    attempts: int = 20
    backoff: Backoff = BACKOFF
    render: Callable[[str], str] | None = None


def parts_of(say: Say, rules: OutboxRules) -> tuple[d.PartText, ...]:
    """Cut a reply into posts; none when there is nothing to post."""
    posts: list[d.PartText] = []
    for part in say.parts:
        text = heard_by_people(part.text, say.origin.chat_type, notice=say.notice)
        posts += _with_file(part, text, rules) if part.file is not None else _texts(part, text, rules)
    texts = [post.text for post in posts if post.file is None]
    if len(texts) <= rules.most_parts:
        return tuple(posts)
    files = tuple(post for post in posts if post.file is not None)
    whole = _attached(say, texts[0], rules) if rules.files else _cut(say, texts, rules)
    last = () if files else posts[-1].buttons
    return (*whole[:-1], whole[-1].model_copy(update={"buttons": last}), *files)


def _texts(part: Part, text: str, rules: OutboxRules) -> list[d.PartText]:
    """The posts of a text. Its buttons are below the last."""
    if not text.strip():
        return []
    if part.buttons and not rules.buttons:
        choices = " · ".join(f"{button.label}: {button.command}" for button in part.buttons)
        text += COMMANDS.format(choices=choices)
    whole = rules.splits_itself
    chunks = [text] if whole else [c.text for c in split(text, rules.limit, rules.unit, rules.render)]
    posts = [d.PartText(text=chunk) for chunk in chunks]
    if part.buttons and rules.buttons:
        posts[-1] = posts[-1].model_copy(update={"buttons": part.buttons})
    return posts


def _with_file(part: Part, text: str, rules: OutboxRules) -> list[d.PartText]:
    """A file with as much of its text beside it as fits; the rest of the text comes after it."""
    file = part.file
    assert file is not None, "a part with a file"
    name = file.name if isinstance(file, FileBlock) else Path(file.path).name
    if not rules.files:
        instead = NO_FILES.format(name=name, path=file.path)
    elif rules.file_bytes is not None and file.size > rules.file_bytes:
        instead = TOO_LARGE.format(name=name, path=file.path, size=file.size, most=rules.file_bytes)
    else:
        beside, rest = _caption(text, rules)
        after = _texts(part, rest, rules) if rest else []
        buttons = () if after or not rules.buttons else part.buttons
        return [d.PartText(text=beside, file=file, buttons=buttons), *after]
    return _texts(part, f"{text}\n\n{instead}".strip(), rules)


def _caption(text: str, rules: OutboxRules) -> tuple[str, str]:
    """Split a text into what stands beside a file, and what comes after it."""
    if not text.strip():
        return "", ""
    if rules.splits_itself and rules.caption is None:
        return text, ""
    most = rules.limit if rules.caption is None else min(rules.caption, rules.limit)
    if most < SMALLEST_LIMIT:
        return "", text
    first, *rest = split(text, most, rules.unit, rules.render)
    return first.text, rest[0].before + "".join(chunk.body for chunk in rest) if rest else ""


def without_file(part: d.PartText, why: str, rules: OutboxRules) -> str | None:
    """Return what is posted in the place of a part whose file was refused; None when it has none of its own.

    What was said beside the file must not be lost with it. The note about the file stands
    below, or alone when nothing else does; where both do not fit, the words are worth more.
    """
    if part.file is None:
        return None
    name = part.file.name if isinstance(part.file, FileBlock) else Path(part.file.path).name
    note = LEFT_OUT.format(name=name, why=why.rstrip("."), path=part.file.path)
    both = f"{part.text}\n\n{note}".strip()
    if rules.splits_itself or len(split(both, rules.limit, rules.unit, rules.render)) == 1:
        return both
    return part.text if part.text.strip() else note


def _attached(say: Say, first: str, rules: OutboxRules) -> tuple[d.PartText, ...]:
    """The beginning as a post, and the whole as a file."""
    name = "answer.md"
    pointer = d.PartText(text=ATTACHED.format(name=name))
    whole = "\n\n".join(part.text for part in say.parts)
    beginning = (d.PartText(text=first), pointer) if rules.most_parts > 1 else (pointer,)
    return (*beginning, d.PartText(text=whole, file_name=name))


def _cut(say: Say, posts: Sequence[str], rules: OutboxRules) -> tuple[d.PartText, ...]:
    kept, dropped = posts[: rules.most_parts - 1], posts[rules.most_parts - 1 :]
    pointer = CUT.format(left=sum(map(len, dropped)), key=say.session_key).strip()
    first = split(pointer, rules.limit, rules.unit, rules.render)[:1]
    return tuple(d.PartText(text=text) for text in (*kept, *(chunk.text for chunk in first)))
