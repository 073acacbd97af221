"""`callboard sessions`: list, show and export conversations."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from actors.console.cli.client import ApiFailureError
from actors.console.cli.export import SUFFIXES, Format, UnsafeNameError, rendered, speaker, write_export
from actors.console.cli.history import History, UnknownSessionError, facts_of, find_key, open_history
from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.printable import printable
from actors.console.cli.shelf import key_of, open_shelf
from messages.gateway import SessionSummary


async def list_sessions(invocation: Invocation, *, as_json: bool) -> int:
    async with open_shelf(invocation) as shelf:
        sessions = await shelf.sessions()
    if as_json:
        invocation.out("[" + ",\n ".join(session.model_dump_json() for session in sessions) + "]")
    elif not sessions:
        invocation.note("No conversations yet. Begin one with: callboard chat")
    for session in () if as_json else sessions:
        invocation.out(printable(session_line(session)))
    return ExitCode.OK


def session_line(session: SessionSummary) -> str:
    """Return one line about a session: key, state, when, how much, title."""
    when = f"{session.last_at:%Y-%m-%d %H:%M}" if session.last_at else "never"
    title = " ".join(session.title.split())[:60]
    return f"{session.session_key}  {session.state:<8}  {when}  {session.messages:>5} messages  {title}"


async def show_session(invocation: Invocation, name: str, *, as_json: bool) -> int:
    async with open_shelf(invocation) as shelf:
        key = await key_of(shelf, name)
        entries = await shelf.transcript(key) if key else ()
    if not entries:
        invocation.note(f"There is no conversation {name!r}. `callboard sessions list` shows all.")
        return ExitCode.FAILED
    if as_json:
        for entry in entries:
            invocation.out(entry.model_dump_json())
        return ExitCode.OK
    for entry in entries:
        invocation.out(printable(f"[{entry.at:%Y-%m-%d %H:%M:%S}] {speaker(entry)}:\n{entry.text}\n"))
    return ExitCode.OK


async def export_sessions(invocation: Invocation, names: Sequence[str], out: Path, form: Format) -> int:
    """Write conversations (all when none is named) as files. One that cannot be written does not stop the others."""
    if problem := _make_folder(out):
        invocation.note(problem)
        return ExitCode.USAGE
    if form in ("openai", "sharegpt"):
        return await _export_dialogues(invocation, names, out, form)
    failures = 0
    async with open_shelf(invocation) as shelf:
        known = {session.session_key: session for session in await shelf.sessions()}
        for name in names or list(known):
            key = await key_of(shelf, name)
            if key is None:
                invocation.note(f"There is no conversation {name!r}.")
                failures += 1
                continue
            try:
                content = rendered(form, known[key], await shelf.transcript(key))
                invocation.out(str(write_export(out, key, SUFFIXES[form], content)))
            except (UnsafeNameError, ApiFailureError, OSError) as error:
                invocation.note(f"{key} was not exported: {error}")
                failures += 1
    return ExitCode.FAILED if failures else ExitCode.OK


async def _export_dialogues(
    invocation: Invocation, names: Sequence[str], out: Path, form: Literal["openai", "sharegpt"]
) -> int:
    """Write conversations from their facts; the transcript has no arguments of tool calls."""
    from actors.console.cli.dialogue import as_openai, as_sharegpt  # noqa: PLC0415 it brings all facts

    render = as_openai if form == "openai" else as_sharegpt
    failures = 0
    async with open_history(invocation) as history:
        for name in names or await _all_keys(history):
            try:
                key = await find_key(history, name)
                content = render(key, await facts_of(history, key))
                invocation.out(str(write_export(out, key, SUFFIXES[form], content)))
            except UnknownSessionError as error:
                invocation.note(str(error))
                failures += 1
            except (UnsafeNameError, ApiFailureError, OSError) as error:
                invocation.note(f"{name} was not exported: {error}")
                failures += 1
    return ExitCode.FAILED if failures else ExitCode.OK


async def _all_keys(history: History) -> list[str]:
    found = await history.query("SELECT DISTINCT session_key FROM sessions ORDER BY 1", max_rows=1_000_000)
    return [str(row[0]) for row in found.rows]


def _make_folder(folder: Path) -> str:
    """Make a folder; return why it cannot be made, or nothing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"The folder {folder} cannot be made: {error.strerror}. Name another one with --out."
    return ""
