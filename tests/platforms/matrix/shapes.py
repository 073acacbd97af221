"""Recorded events of Matrix rooms, for fuzzing."""

from datetime import UTC, datetime
from typing import Any

from actors.gateway.platforms.matrix.translate import Room, Translated, Us, translate
from tests.platforms.fuzz import FuzzTarget

US = Us("@bot:x.org", commands=frozenset({"stop", "new"}))
NAMES = {"@ann:x.org": "Ann", "@bot:x.org": "Call Board", "@bob:x.org": "Bob"}
ROOM = Room("!r:x.org", members=5, name="Lobby", topic="soups", name_of=lambda user: NAMES.get(user, ""))
DIRECT = Room("!d:x.org", members=2)
AT = datetime(2026, 1, 1, 12, tzinfo=UTC)


def event(kind: str = "m.room.message", /, **content: Any) -> dict[str, Any]:
    return {
        "event_id": "$e1:x.org",
        "sender": "@ann:x.org",
        "type": kind,
        "room_id": "!r:x.org",
        "origin_server_ts": 1_767_268_800_000,
        "unsigned": {"age": 17},
        "content": content,
    }


PILL = '<a href="https://matrix.to/#/@bot:x.org">Call Board</a>: <b>hello</b> <a href="https://matrix.to/#/@bob:x.org">Bob</a>'
SHAPES: list[Any] = [
    event(msgtype="m.text", body="hello"),
    event(
        msgtype="m.text",
        body="Call Board: hello Bob",
        format="org.matrix.custom.html",
        formatted_body=PILL,
        **{"m.mentions": {"user_ids": ["@bot:x.org", "@bob:x.org"], "room": True}},
    ),
    event(msgtype="m.text", body="!stop now"),
    event(msgtype="m.emote", body="waves"),
    event(msgtype="m.notice", body="a program speaks"),
    event(
        msgtype="m.text",
        body="> <@bot:x.org> what I said\n\nno",
        format="org.matrix.custom.html",
        formatted_body="<mx-reply><blockquote>what I said</blockquote></mx-reply>no",
        **{"m.relates_to": {"m.in_reply_to": {"event_id": "$e0:x.org"}}},
    ),
    event(
        msgtype="m.text",
        body="in a thread",
        **{
            "m.relates_to": {
                "rel_type": "m.thread",
                "event_id": "$root:x.org",
                "is_falling_back": True,
                "m.in_reply_to": {"event_id": "$e0:x.org"},
            }
        },
    ),
    event(
        msgtype="m.text",
        body="* hello, changed",
        **{
            "m.new_content": {"msgtype": "m.text", "body": "hello, changed"},
            "m.relates_to": {"rel_type": "m.replace", "event_id": "$e0:x.org"},
        },
    ),
    event("m.room.redaction", redacts="$e0:x.org", reason="oops"),
    {**event("m.room.redaction", reason="oops"), "redacts": "$e0:x.org"},
    event(
        msgtype="m.image",
        body="cat.png",
        url="mxc://x.org/abc",
        info={"mimetype": "image/png", "size": 12_345, "w": 10, "h": 20},
    ),
    event(
        msgtype="m.file",
        body="report",
        filename="report.pdf",
        file={
            "url": "mxc://x.org/def",
            "key": {"k": "A" * 43, "alg": "A256CTR", "kty": "oct", "ext": True, "key_ops": ["decrypt"]},
            "iv": "AAAA",
            "hashes": {"sha256": "BBBB"},
            "v": "v2",
        },
        info={"mimetype": "application/pdf", "size": 99},
    ),
    event("m.sticker", body="heart", url="mxc://x.org/ghi", info={"mimetype": "image/webp"}),
    event(msgtype="m.location", body="here", geo_uri="geo:52.5,13.4"),
    event(
        "m.room.encrypted", algorithm="m.megolm.v1.aes-sha2", ciphertext="AAA", session_id="s", sender_key="k"
    ),
    event("m.reaction", **{"m.relates_to": {"rel_type": "m.annotation", "event_id": "$e0", "key": "x"}}),
    {**event("m.room.tombstone", replacement_room="!new:x.org", body="moved"), "state_key": ""},
    {**event("m.room.member", membership="join", displayname="Ann"), "state_key": "@ann:x.org"},
]


def feed(raw: object) -> object:
    found = [translate(raw, room, US, AT) for room in (ROOM, DIRECT)]
    return [each.heard for each in found if isinstance(each, Translated)]


FUZZ = FuzzTarget(SHAPES, feed)
