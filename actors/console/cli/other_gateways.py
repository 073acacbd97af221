"""Other programs on this machine that may be connected with the same accounts as we.

Two programs with one bot token disturb each other: Telegram refuses both, Slack splits
the events between them, Discord lets both answer. So before an account is connected,
this looks for the gateways that people come from: by their processes, by the files
with their pids, and by the ports they listen on.
"""

import json
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

import psutil

from actors.console.cli.invocation import Invocation

if TYPE_CHECKING:
    from messages.settings import Settings

MOST_READ: Final = 2_000_000
"""Bytes of another program's configuration that are looked through."""

SHORTEST_SECRET: Final = 8


@dataclass(frozen=True, slots=True)
class Known:
    """A gateway as it looks from outside."""

    name: str
    programs: tuple[str, ...]
    """What its command, module or folder is called."""
    pid_files: tuple[str, ...]
    """Below the user's home folder; patterns."""
    configs: tuple[str, ...]
    """Where it keeps its tokens."""
    port: int | None
    stop: str


KNOWN: Final = (
    Known(
        "Hermes Agent",
        ("hermes", "hermes_cli", "hermes-agent", "hermes-gateway"),
        (".hermes/gateway.pid", ".hermes/gateway.lock", ".hermes/profiles/*/gateway.pid"),
        (".hermes/.env", ".hermes/config.yaml", ".hermes/profiles/*/.env"),
        None,
        "hermes gateway stop",
    ),
    Known(
        "OpenClaw",
        ("openclaw", "openclaw-gateway", "clawdbot", "clawdbot-gateway", "moltbot", "moltbot-gateway"),
        (".openclaw/gateway.pid", ".openclaw/gateway.*.lock", ".openclaw/gateway.lock"),
        (".openclaw/openclaw.json", ".openclaw/.env", ".clawdbot/clawdbot.json", ".moltbot/moltbot.json"),
        18789,
        "openclaw gateway stop",
    ),
    Known(
        "nanobot",
        ("nanobot", "nanobot-ai", "nanobot-gateway"),
        (".nanobot/gateway.pid", ".nanobot/gateway.lock"),
        (".nanobot/config.json", ".nanobot/.env"),
        18790,
        "stop the process `nanobot gateway`",
    ),
)

_INTERPRETERS: Final = re.compile(r"(python[\d.]*|node|bun|deno|uv|uvx|npx|npm|pnpm|pipx|tini|env|sudo)\Z")


@dataclass(frozen=True, slots=True)
class Seen:
    """A process."""

    pid: int
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Other:
    """A gateway that runs, or seems to."""

    name: str
    how: str
    """How we know: `process 4711: hermes gateway run`."""
    stop: str
    same_token: bool = False
    """Whether its configuration holds a secret of ours."""

    @property
    def warning(self) -> str:
        """One line for the person who connects an account."""
        tokens = "its configuration holds the same token" if self.same_token else "if it uses the same tokens"
        return (
            f"{self.name} runs on this machine ({self.how}): {tokens}, both will be disturbed. "
            "Telegram then refuses both, Slack splits the messages between them, on Discord both answer."
        )


def processes() -> Iterator[Seen]:
    """Give the processes of this machine that we may look at."""
    for process in psutil.process_iter(["pid", "cmdline", "name"]):
        argv = process.info["cmdline"] or [process.info["name"] or ""]
        yield Seen(process.info["pid"], tuple(argv))


def listens(port: int) -> bool:
    """Say whether somebody takes connections on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(0.3)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def find_others(
    home: Path,
    secrets: Iterable[str] = (),
    *,
    seen: Iterable[Seen] | None = None,
    listening: Callable[[int], bool] = listens,
) -> tuple[Other, ...]:
    """Look for gateways that run; `home` is the user's home folder, `secrets` are the tokens of ours."""
    running = list(processes() if seen is None else seen)
    tokens = tuple(secret for secret in secrets if len(secret) >= SHORTEST_SECRET)
    found = []
    for known in KNOWN:
        how = _how(known, home, running, listening)
        if how:
            found.append(Other(known.name, how, known.stop, _holds(known, home, tokens)))
    return tuple(found)


def others_beside(invocation: Invocation, settings: "Settings") -> tuple[Other, ...]:
    """Look for gateways that may use the accounts of these settings; none when no platform is set."""
    from actors.settings_file import secrets_of  # noqa: PLC0415 for those who have the settings

    home = invocation.env.get("HOME")
    used = [each for each in settings.platforms.values() if each.enabled]
    if not home or not used:
        return ()
    return find_others(Path(home), [secret for each in used for secret in secrets_of(each)])


def _how(known: Known, home: Path, running: list[Seen], listening: Callable[[int], bool]) -> str:
    for process in running:
        if is_gateway(known, process.argv):
            return f"process {process.pid}: {_short(process.argv)}"
    by_pid = {process.pid: process for process in running}
    for path in _files(home, known.pid_files):
        owner = by_pid.get(_pid_in(path) or 0)
        if owner is not None and _mentions(known, owner.argv):
            return f"process {owner.pid}, named in {path}"
    if (
        known.port is not None
        and (home / PurePath(known.configs[0]).parts[0]).is_dir()
        and listening(known.port)
    ):
        return f"its port {known.port} takes connections"
    return ""


def is_gateway(known: Known, argv: tuple[str, ...]) -> bool:
    """Say whether a command line is this gateway's: its program, and then the word `gateway`."""
    if not argv:
        return False
    title = argv[0].split()
    words = [*title, *argv[1:]] if len(title) > 1 and "gateway" in argv[0] else list(argv)
    if PurePath(words[0]).name in {name for name in known.programs if name.endswith("gateway")}:
        return True
    at = _program_at(known, words)
    return at is not None and "gateway" in words[at + 1 : at + 4]


def _program_at(known: Known, words: list[str]) -> int | None:
    """Where the program itself stands: first, or behind an interpreter and its options."""
    for n, word in enumerate(words[:6]):
        if _is_program(known, word):
            return n
        plain = PurePath(word).name
        if n == 0 and not _INTERPRETERS.match(plain):
            return None
        if n and not word.startswith("-") and not _INTERPRETERS.match(plain) and word not in {"run", "exec"}:
            return None
    return None


def _is_program(known: Known, word: str) -> bool:
    """Whether a word is the program: its command, `-m` module, or a script in its folder."""
    path = PurePath(word)
    if path.name in known.programs or path.stem in known.programs or word.partition(".")[0] in known.programs:
        return True
    return path.suffix in {".py", ".js", ".mjs", ".ts"} and any(part in known.programs for part in path.parts)


def _mentions(known: Known, argv: tuple[str, ...]) -> bool:
    return any(name in word for word in argv for name in known.programs)


def _files(home: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    for pattern in patterns:
        try:
            yield from sorted(home.glob(pattern))[:20]
        except OSError:
            continue


def _pid_in(path: Path) -> int | None:
    """Read a pid: the number alone, or `pid` in JSON."""
    text = _text(path, 10_000).strip()
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    pid = said.get("pid") if isinstance(said, dict) else said
    return pid if isinstance(pid, int) and not isinstance(pid, bool) else None


def _holds(known: Known, home: Path, secrets: tuple[str, ...]) -> bool:
    if not secrets:
        return False
    texts = (_text(path, MOST_READ) for path in _files(home, known.configs))
    return any(secret in text for text in texts for secret in secrets)


def _text(path: Path, most: int) -> str:
    try:
        with path.open("rb") as file:
            return file.read(most).decode("utf-8", "replace")
    except OSError:
        return ""


def _short(argv: tuple[str, ...]) -> str:
    """Return a command line for people, without what may be a secret in it."""
    shown = [PurePath(word).name or word for word in argv[:4]]
    return " ".join(word for word in shown if "=" not in word)[:100]
