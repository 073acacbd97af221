"""What a reply becomes on a platform: the posts it is cut into, none when there is nothing to post. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from actors.gateway.chunks import Unit, split
from actors.gateway.silence import heard_by_people
from actors.supervision import Backoff
from messages import delivery as d
from messages.gateway import Say
from messages.settings import UnknownOutcome

CUT = "\n\n(Cut here: {left} more characters. The whole answer is in the history: {key})"
ATTACHED = "(This answer is long: the whole of it is in the file {name}.)"
BACKOFF = Backoff(first_s=1.0, most_s=60.0)


@dataclass(frozen=True, slots=True)
class OutboxRules:
    """What the platform can do, and what the operator set."""

    limit: int = 4000
    unit: Unit = Unit.CHARACTERS
    files: bool = False
    splits_itself: bool = False
    idempotency_key: bool = False
    key_valid_s: float | None = None
    """How long the platform remembers a key; None: for ever."""
    history: bool = False
    unknown_outcome: UnknownOutcome = "send_again"
    """Where neither a key nor the history can tell."""
    at_once: int = 8
    most_parts: int = 10
    attempts: int = 8
    backoff: Backoff = BACKOFF
    render: Callable[[str], str] | None = None


def parts_of(say: Say, rules: OutboxRules) -> tuple[d.PartText, ...]:
    """Cut a reply into posts; none when there is nothing to post."""
    posts: list[str] = []
    for part in say.parts:
        text = heard_by_people(part.text, say.origin.chat_type, notice=say.notice)
        if not text.strip():
            continue
        if rules.splits_itself:
            posts.append(text)
        else:
            posts += [chunk.text for chunk in split(text, rules.limit, rules.unit, rules.render)]
    if len(posts) <= rules.most_parts:
        return tuple(d.PartText(text=text) for text in posts)
    if rules.files:
        return _attached(say, posts[0], rules)
    return _cut(say, posts, rules)


def _attached(say: Say, first: str, rules: OutboxRules) -> tuple[d.PartText, ...]:
    """The beginning as a post, and the whole as a file."""
    name = "answer.md"
    pointer = d.PartText(text=ATTACHED.format(name=name))
    whole = "\n\n".join(part.text for part in say.parts)
    beginning = (d.PartText(text=first), pointer) if rules.most_parts > 1 else (pointer,)
    return (*beginning, d.PartText(text=whole, file_name=name))


def _cut(say: Say, posts: list[str], rules: OutboxRules) -> tuple[d.PartText, ...]:
    kept, dropped = posts[: rules.most_parts - 1], posts[rules.most_parts - 1 :]
    pointer = CUT.format(left=sum(map(len, dropped)), key=say.session_key).strip()
    first = split(pointer, rules.limit, rules.unit, rules.render)[:1]
    return tuple(d.PartText(text=text) for text in (*kept, *(chunk.text for chunk in first)))
