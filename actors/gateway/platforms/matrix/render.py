"""What we write into a room: from Markdown to the content of an event. Pure."""

import json
import re
from typing import Any

from actors.gateway.markup_html import html

Content = dict[str, Any]

KEY = "callboard.key"
"""The field of an event's content by which we find our own post again."""

MOST_EVENT = 48_000
"""Bytes of content, before encryption makes more of it."""

_EVERYBODY = re.compile(r"@(?=room(?![A-Za-z0-9_]))", re.IGNORECASE)
_BREAK = "\u200b"
_SIMPLE = re.compile(r"^<p>([^<&]*)</p>$")


def harmless(text: str) -> str:
    """Break what would ring for everybody in the room."""
    return _EVERYBODY.sub("@" + _BREAK, text)


def counted(text: str) -> str:
    """Return a text that is as long as what an event needs for this one: the text and its HTML, as JSON."""
    shown = harmless(text)
    return json.dumps([shown, html(shown)], ensure_ascii=False)


def text_content(text: str, *, notice: bool = False) -> Content:
    """The content of a message, without relations. Mentions nobody."""
    shown = harmless(text)
    rich = harmless(html(shown))
    content: Content = {"msgtype": "m.notice" if notice else "m.text", "body": shown, "m.mentions": {}}
    if not _SIMPLE.match(rich) and len(shown.encode()) + len(rich.encode()) < MOST_EVENT:
        content |= {"format": "org.matrix.custom.html", "formatted_body": rich}
    return content


def relation(thread: str | None, reply_to: str | None) -> Content:
    """Say where a message belongs: into a thread, and below what it replies to."""
    if thread is not None:
        return {
            "rel_type": "m.thread",
            "event_id": thread,
            "is_falling_back": reply_to is None or reply_to == thread,
            "m.in_reply_to": {"event_id": reply_to or thread},
        }
    return {"m.in_reply_to": {"event_id": reply_to}} if reply_to is not None else {}


def edit_of(event_id: str, content: Content) -> Content:
    """Return a message that takes the place of an earlier one of ours."""
    new = {name: value for name, value in content.items() if name != "m.relates_to"}
    body = content["body"]
    outer: Content = {
        "msgtype": content["msgtype"],
        # For clients that know no edits. A long text is not sent twice: the event has to fit.
        "body": f"* {body if len(body) <= 500 else body[:500] + '…'}",
        "m.mentions": {},
        "m.new_content": new,
        "m.relates_to": {"rel_type": "m.replace", "event_id": event_id},
    }
    if KEY in content:
        outer[KEY] = content[KEY]
    return outer


def edited_by(content: Content) -> str | None:
    """Return the event whose place a message takes, if it does."""
    related = content.get("m.relates_to")
    if not isinstance(related, dict) or related.get("rel_type") != "m.replace":
        return None
    return str(related.get("event_id") or "") or None


def size_of(content: Content) -> int:
    return len(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))


REACTIONS = {"seen": "👀", "working": "⏳", "done": "✅", "failed": "❌"}
