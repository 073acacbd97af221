"""What stands in a message besides its text: files to be fetched, and what can be said in words. Pure.

The names of files are the sender's; `file_name` makes them harmless. Our own files never
bear them.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Any

from messages.blocks import TextBlock

Json = dict[str, Any]

LONGEST_NAME = 120
MOST_FILES = 20
_KINDS = (
    ("document", "file", "file"),
    ("audio", "file", "audio.mp3"),
    ("voice", "voice message", "voice.ogg"),
    ("video", "video", "video.mp4"),
    ("video_note", "video message", "video-message.mp4"),
)


@dataclass(frozen=True, slots=True)
class Attached:
    """A file that the service keeps for us."""

    file_id: str
    name: str
    """Harmless: see `file_name`."""
    mime: str
    size: int | None
    """In bytes, as the service says; None when it does not."""
    kind: str = "file"
    """What it is for people: `image`, `file`, `voice message` …"""


def file_name(raw: object, fallback: str) -> str:
    """Return the base name, without control characters and without marks that turn the direction of writing."""
    text = raw if isinstance(raw, str) else ""
    base = re.split(r"[/\\]", text.replace("\x00", ""))[-1]
    shown = "".join(c for c in base if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp")).strip(
        " ."
    )
    if not shown:
        return fallback
    if len(shown) <= LONGEST_NAME:
        return shown
    stem, dot, ending = shown.rpartition(".")
    if not dot or len(ending) > 10:
        return shown[:LONGEST_NAME]
    return f"{stem[: LONGEST_NAME - len(ending) - 1]}.{ending}"


def number(value: object) -> int | None:
    """Return what is a whole number of at most 64 bits."""
    return value if type(value) is int and abs(value) < 1 << 63 else None


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def identifier(value: object, most: int) -> str:
    """Return an id that is a text; an empty one for what cannot be one."""
    found = text(value)
    return found if found.isascii() and found.isprintable() and len(found) <= most else ""


def inner(value: object, name: str) -> Json:
    """Return the object of that name, an empty one when there is none."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def files_in(message: Json) -> tuple[Attached, ...]:
    """Return what is to be fetched."""
    found = []
    photo = _largest(message.get("photo"))
    if photo is not None:
        found.append(_attached(photo, "image", "photo.jpg", "image/jpeg"))
    animation = inner(message, "animation")
    if animation:
        # The service gives the same file as a document too.
        found.append(_attached(animation, "video", "animation.mp4", "video/mp4"))
    for name, kind, fallback in _KINDS:
        what = inner(message, name)
        if what and not (name == "document" and animation):
            found.append(_attached(what, kind, fallback, "application/octet-stream"))
    return tuple(each for each in found if each is not None)[:MOST_FILES]


def _largest(sizes: object) -> Json | None:
    if not isinstance(sizes, list):
        return None
    known = [size for size in sizes[:20] if isinstance(size, dict) and identifier(size.get("file_id"), 512)]
    return max(
        known,
        key=lambda size: (number(size.get("width")) or 0, number(size.get("file_size")) or 0),
        default=None,
    )


def _attached(what: Json, kind: str, fallback: str, mime: str) -> Attached | None:
    file_id = identifier(what.get("file_id"), 512)
    if not file_id:
        return None
    size = number(what.get("file_size"))
    given = text(what.get("mime_type"))
    return Attached(
        file_id,
        file_name(what.get("file_name"), fallback),
        given if re.fullmatch(r"[\w.+-]{1,60}/[\w.+-]{1,60}", given, re.ASCII) else mime,
        size if size is not None and size >= 0 else None,
        kind,
    )


def notes_in(message: Json) -> tuple[TextBlock, ...]:
    """Say in words what is no file: places, contacts, polls, dice, stickers."""
    found = [
        _sticker(inner(message, "sticker")),
        _place(inner(message, "venue"), inner(message, "location")),
        _contact(inner(message, "contact")),
        _poll(inner(message, "poll")),
        _dice(inner(message, "dice")),
    ]
    return tuple(TextBlock(text=f"[{note[:1000]}]") for note in found if note)


def _sticker(sticker: Json) -> str:
    return f"sticker {text(sticker.get('emoji'))[:20]}".strip() if sticker else ""


def _place(venue: Json, location: Json) -> str:
    at = location or inner(venue, "location")
    where = ", ".join(f"{_degrees(at.get(part)):g}" for part in ("latitude", "longitude"))
    if venue:
        return f"place: {text(venue.get('title'))[:200]}, {text(venue.get('address'))[:300]} ({where})"
    return f"location: {where}" if location else ""


def _degrees(value: object) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool) and -360 <= value <= 360
    return float(value) if known else 0.0  # type: ignore[arg-type]


def _contact(contact: Json) -> str:
    if not contact:
        return ""
    names = (text(contact.get(part))[:100] for part in ("first_name", "last_name", "phone_number"))
    return f"contact: {' '.join(name for name in names if name)}"


def _poll(poll: Json) -> str:
    if not poll:
        return ""
    options = poll.get("options")
    choices = (
        [text(o.get("text"))[:100] for o in options[:20] if isinstance(o, dict)]
        if isinstance(options, list)
        else []
    )
    return f"poll: {text(poll.get('question'))[:300]} ({' / '.join(choices)})"


def _dice(dice: Json) -> str:
    value = number(dice.get("value"))
    return f"{text(dice.get('emoji'))[:10]} shows {value}" if dice and value is not None else ""
