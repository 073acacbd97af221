"""The threads of chats in which something was answered lately, for who takes up the talk after a start."""

from datetime import datetime
from typing import Final

from messages.gateway import ChatType, Origin
from store.readers import SelectRows

MOST_THREADS: Final = 10_000

_THREADS: Final = r"""
SELECT platform, account, chat, thread, max(said_at) AS latest
FROM messages
WHERE role = 'assistant' AND chat_type = 'thread' AND said_at > ? AND thread <> '' AND chat <> ''
  AND NOT regexp_matches(text, '^\W*NO[_ -]REPLY\W*$', 'i')
GROUP BY platform, account, chat, thread
ORDER BY latest DESC LIMIT 10000
"""


async def answered_threads(select: SelectRows, since: datetime) -> tuple[tuple[Origin, datetime], ...]:
    """Return the threads in which we answered since then, the oldest answer first. Raises as `select` does."""
    rows = (await select(_THREADS, (since,), max_rows=MOST_THREADS)).rows
    found = []
    for platform, account, chat, thread, at in reversed(rows):
        origin = Origin(
            platform=str(platform),
            account=str(account),
            chat_type=ChatType.THREAD,
            chat=str(chat),
            thread=str(thread),
        )
        assert isinstance(at, datetime)
        found.append((origin, at))
    return tuple(found)
