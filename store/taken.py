"""Whose conversation the latest messages went to: what comes again after a start, or is taken back, is one of them."""

from datetime import datetime
from typing import Final

from messages.gateway import ChatType, Origin
from messages.ids import MessageId, SessionKey
from store.readers import SelectRows

MOST_MESSAGES: Final = 5000

_TAKEN: Final = f"""
SELECT platform, account, chat_type, chat, author_id, message_id, session_key
FROM messages
WHERE role IN ('user', 'command') AND said_at > ? AND message_id <> '' AND session_key <> ''
ORDER BY id DESC LIMIT {MOST_MESSAGES}
"""  # noqa: S608 a number of ours


async def taken_messages(
    select: SelectRows, since: datetime
) -> tuple[tuple[Origin, MessageId, SessionKey], ...]:
    """Return what was taken since then, the oldest first: its place, its id, its conversation.

    A place is a chat, or the person of a direct message that has no chat. Raises as `select` does.
    """
    rows = (await select(_TAKEN, (since,), max_rows=MOST_MESSAGES)).rows
    places: dict[tuple[str, ...], Origin] = {}
    found = []
    for platform, account, kind, chat, author, message_id, key in reversed(rows):
        name = (str(platform), str(account), str(kind), str(chat or ""), "" if chat else str(author or ""))
        if name not in places:
            places[name] = Origin(
                platform=name[0],
                account=name[1],
                chat_type=ChatType(name[2]),
                chat=name[3] or None,
                user=name[4] or None,
            )
        found.append((places[name], MessageId(str(message_id)), SessionKey(str(key))))
    return tuple(found)
