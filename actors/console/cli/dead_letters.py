"""`callboard dead-letters`: messages and replies that were given up, and what is to become of them."""

import json
from typing import Literal

from pydantic import TypeAdapter

from actors.clock import WallClock
from actors.console.cli.client import ApiFailureError, ControlClient
from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.printable import printable
from actors.console.cli.running import find_running
from actors.console.cli.shelf import DATABASE
from actors.errors import StartError
from messages.dead_letters import DeadLetter

_LETTERS: TypeAdapter[tuple[DeadLetter, ...]] = TypeAdapter(tuple[DeadLetter, ...])


async def list_letters(invocation: Invocation, *, everything: bool, as_json: bool) -> int:
    """List the open dead letters, or all: of the running process, else of the database that nobody uses."""
    letters = [letter for letter in await _letters(invocation) if everything or letter.state == "open"]
    if as_json:
        invocation.out("[" + ",\n ".join(letter.model_dump_json() for letter in letters) + "]")
    elif not letters:
        invocation.note("No dead letters." if everything else "No open dead letters.")
    for letter in () if as_json else letters:
        invocation.out(printable(letter_line(letter)))
    return ExitCode.OK


def letter_line(letter: DeadLetter) -> str:
    """Return one line about a dead letter: number, when, state, kind, whose or where to, what, why."""
    text = " ".join(letter.text.split())[:60] or "(no text is kept)"
    error = " ".join(letter.error.split())[:80]
    where = letter.session_key if letter.kind == "message" else letter.place
    return f"{letter.id:>8}  {letter.at:%Y-%m-%d %H:%M}  {letter.state:<8} {letter.kind:<7}  {where}  {text}  [{error}]"


async def show_letter(invocation: Invocation, number: int, *, as_json: bool) -> int:
    """Show one dead letter whole."""
    letter = next((letter for letter in await _letters(invocation) if letter.id == number), None)
    if letter is None:
        invocation.note(f"There is no dead letter {number}. `callboard dead-letters list --all` shows all.")
        return ExitCode.FAILED
    invocation.out(letter.model_dump_json(indent=2) if as_json else printable(letter_text(letter)))
    return ExitCode.OK


def letter_text(letter: DeadLetter) -> str:
    """Return a dead letter as people read it."""
    state: str = letter.state
    if letter.closed_at is not None:
        state += f", by {letter.closed_by}, {letter.closed_at:%Y-%m-%d %H:%M:%S} UTC"
    rows = [
        ("Dead letter", f"{letter.id}, a {letter.kind}"),
        ("State", state),
        ("Session", letter.session_key),
        *(_message_rows(letter) if letter.kind == "message" else _reply_rows(letter)),
        ("Given up", f"{letter.at:%Y-%m-%d %H:%M:%S} UTC"),
        ("Because", letter.error),
    ]
    if letter.retried_as:
        rows.append(("Handed in as" if letter.kind == "message" else "Delivered as", letter.retried_as))
    if letter.state == "open" and letter.obstacle:
        rows.append(("Retry", f"not possible: {letter.obstacle}"))
    width = max(len(name) for name, _ in rows) + 2
    head = "\n".join(f"{name:<{width}}{value}" for name, value in rows)
    return f"{head}\n\n{letter.text}" if letter.text else head


def _message_rows(letter: DeadLetter) -> list[tuple[str, str]]:
    return [
        ("Message", letter.message_id or "none: something of the program's own failed"),
        ("From", letter.author or "unknown"),
    ]


def _reply_rows(letter: DeadLetter) -> list[tuple[str, str]]:
    posted = f"{letter.posted} of {letter.parts}"
    if letter.doubtful:
        posted += f", and nobody knows of part {letter.posted + 1}"
    return [("Reply", letter.delivery_id or ""), ("To", letter.place), ("Posted", posted)]


async def decide_letter(invocation: Invocation, number: int, how: Literal["retry", "drop"]) -> int:
    """Let the running process hand in or deliver something again, or note that nothing more will be done about it."""
    running = find_running(invocation.home)
    if running is None:
        invocation.note(
            f"Not running on {invocation.home}: only a running process can {how}. Start it with: callboard run"
        )
        return ExitCode.NOT_RUNNING
    async with ControlClient(lambda: running.socket, WallClock()) as client:
        try:
            answer = await client.post(f"/api/dead-letters/{number}/{how}")
            letter = DeadLetter.model_validate_json(json.dumps(answer))
        except ApiFailureError as error:
            invocation.note(f"Not done: {error}.")
            return ExitCode.FAILED
    if how == "drop":
        invocation.out(f"{number} is dropped.")
    elif letter.kind == "message":
        invocation.out(
            f"{number} was handed in again, as {letter.retried_as}; it is answered where it was asked."
        )
    else:
        invocation.out(printable(f"{number} is delivered again to {letter.place}, as {letter.retried_as}."))
    return ExitCode.OK


async def _letters(invocation: Invocation) -> tuple[DeadLetter, ...]:
    running = find_running(invocation.home)
    if running is not None:
        async with ControlClient(lambda: running.socket, WallClock()) as client:
            content = (await client.get("/api/dead-letters"))["dead_letters"]
        return _LETTERS.validate_json(json.dumps(content))
    path = invocation.home / DATABASE
    if not path.exists():
        return ()
    from actors.redaction import Redactor  # noqa: PLC0415 the running process has masked already
    from actors.settings_file import secrets_of, secrets_of_environment  # noqa: PLC0415
    from store.dead_letters import dead_letters, masked  # noqa: PLC0415 it brings DuckDB
    from store.store import Store, StoreOpenError  # noqa: PLC0415

    settings = invocation.read_settings().settings
    redactor = Redactor((*secrets_of(settings), *secrets_of_environment(invocation.env).values()))
    try:
        store = Store.open(path, settings.store, WallClock())
    except StoreOpenError as error:
        raise StartError(error.what, error.remedy) from error
    await store.start()
    try:
        letters = await dead_letters(store.select)
    finally:
        await store.close()
    return tuple(masked(letter, redactor.clean) for letter in letters)
