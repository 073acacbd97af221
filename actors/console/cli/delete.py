"""`callboard sessions delete`: a conversation's history, for good."""

from collections.abc import Sequence

from actors.console.cli.history import History, UnknownSessionError, find_key, open_history
from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.printable import printable
from messages.ids import SessionKey

_COUNT = """
SELECT count(*) FILTER (role IN ('user', 'assistant')), min(said_at), max(said_at)
FROM messages WHERE session_key = $1
"""


async def delete_sessions(invocation: Invocation, names: Sequence[str], *, yes: bool) -> int:
    """Delete sessions, each after a yes of its own. One that cannot be deleted does not stop the others."""
    failures, deleted = 0, 0
    async with open_history(invocation) as history:
        for name in names:
            try:
                key = await find_key(history, name)
                if not yes and not await _confirmed(invocation, history, key):
                    invocation.note(f"{printable(key)} was not deleted.")
                    failures += 1
                    continue
                erased = await history.erase(key)
            except UnknownSessionError as error:
                invocation.note(printable(str(error)))
                failures += 1
                continue
            deleted += 1
            invocation.out(printable(f"Deleted {key}: {erased.facts} facts, {erased.files} kept results."))
            if erased.unanswered:
                invocation.note(
                    f"{erased.unanswered} message(s) in it were not answered yet; they will not be."
                )
    if deleted:
        _say_what_remains(invocation)
    return ExitCode.FAILED if failures else ExitCode.OK


async def _confirmed(invocation: Invocation, history: History, key: SessionKey) -> bool:
    found = await history.query(_COUNT, [key])
    count, first, last = found.rows[0]
    span = f", from {str(first)[:16]} to {str(last)[:16]} UTC" if count else ""
    invocation.note(printable(f"{key}: {count} messages{span}."))
    invocation.note("This cannot be undone. Type yes to delete it:")
    return invocation.stdin.readline().strip().lower() == "yes"


def _say_what_remains(invocation: Invocation) -> None:
    from actors.gateway.erasure import WHAT_REMAINS  # noqa: PLC0415 it brings the sessions' rules

    invocation.note("What remains:")
    for line in WHAT_REMAINS:
        invocation.note(f"  - {line}")
