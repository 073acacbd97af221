"""Writing conversations to files. A session's name comes from a client and is hostile until it is a file name."""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from messages.gateway import SessionSummary, TranscriptEntry

NAME_BYTES: Final = 255
"""What common file systems allow for one name."""

_HASH_CHARS: Final = 12
_UNSAFE = re.compile(r"[^\w.\-@+=, ()]|[\ud800-\udfff]")
_RESERVED = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?:\..*)?\Z", re.IGNORECASE
)


OWN_SURFACES: Final = ("", "terminal", "web", "api")
"""Authors that are only the name of a surface: the person at it is the operator."""


class UnsafeNameError(ValueError):
    """A name that no file can have, with why."""


def safe_file_name(name: str, suffix: str = "") -> str:
    """Return a file name for any text: one path component of at most 255 bytes, valid on every system.

    Different names give different file names: where anything had to be changed
    or cut, a hash of the whole name is put at the end. Raises UnsafeNameError
    for an empty name and for one that contains NUL.
    """
    if "\0" in name:
        raise UnsafeNameError(f"the name {name[:60]!r} contains a NUL character; no file can be called that")
    if not name.strip():
        raise UnsafeNameError("an empty name cannot name a file")
    plain = _UNSAFE.sub("_", name).strip(" .").lstrip("-")
    # Capitals and accents are changed by some file systems, so that two names could become one.
    unchanged = plain == name and not _RESERVED.match(name) and name.isascii() and name == name.lower()
    if unchanged and len(f"{name}{suffix}".encode()) <= NAME_BYTES and not _looks_hashed(name):
        return f"{name}{suffix}"
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    tail = f"-{digest}{suffix}"
    if _RESERVED.match(plain):
        plain = f"_{plain}"
    room = NAME_BYTES - len(tail.encode())
    short = plain.encode("utf-8")[:room].decode("utf-8", "ignore").rstrip(" .")
    return f"{short or 'session'}{tail}"


def _looks_hashed(name: str) -> bool:
    """Return whether a name could be mistaken for one that was shortened."""
    return re.search(rf"-[0-9a-f]{{{_HASH_CHARS}}}\Z", name) is not None


def write_export(folder: Path, name: str, suffix: str, content: str) -> Path:
    """Write one file into the folder, whole or not at all; return its path.

    Raises UnsafeNameError for a name that no file can have, and OSError.
    """
    root = folder.resolve()
    target = root / safe_file_name(name, suffix)
    if target.parent != root or target.is_symlink() or (target.exists() and not target.is_file()):
        raise UnsafeNameError(f"{target} is something else than a plain file; it is not overwritten")
    handle, temporary = tempfile.mkstemp(prefix=".export-", dir=root)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return target


def as_json(summary: SessionSummary, entries: Iterable[TranscriptEntry]) -> str:
    """Return a conversation as one JSON object."""
    content = {
        "session": summary.model_dump(mode="json"),
        "entries": [entry.model_dump(mode="json") for entry in entries],
    }
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def as_markdown(summary: SessionSummary, entries: Iterable[TranscriptEntry]) -> str:
    """Return a conversation as Markdown."""
    title = " ".join(summary.title.split()) or summary.session_key
    parts = [f"# {title}", "", f"Session `{summary.session_key}`", ""]
    for entry in entries:
        parts += [f"## {speaker(entry)} · {entry.at:%Y-%m-%d %H:%M:%S} UTC", "", _body(entry), ""]
    return "\n".join(parts)


def speaker(entry: TranscriptEntry) -> str:
    """Return who an entry is by, for people."""
    match entry.role:
        case "user":
            return "You" if entry.author in OWN_SURFACES else entry.author
        case "assistant":
            return "Assistant"
        case "tool":
            return f"Tool {entry.name}" + (f" ({entry.status})" if entry.status else "")
        case "notice":
            return "Notice"


def _body(entry: TranscriptEntry) -> str:
    if entry.role != "tool":
        return entry.text
    longest = max((len(run) for run in re.findall(r"`+", entry.text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{entry.text}\n{fence}"


Format = Literal["md", "json", "openai", "sharegpt"]

SUFFIXES: Final[dict[Format, str]] = {
    "md": ".md",
    "json": ".json",
    "openai": ".openai.jsonl",
    "sharegpt": ".sharegpt.jsonl",
}


def rendered(form: Format, summary: SessionSummary, entries: Iterable[TranscriptEntry]) -> str:
    """Return a conversation in the wanted format."""
    return as_json(summary, entries) if form == "json" else as_markdown(summary, entries)
