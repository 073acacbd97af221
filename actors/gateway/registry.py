"""The registry of chat platforms: which there are, what each can do, and whether it can be used here.

A platform is a module below `actors/gateway/platforms` with a `PLATFORM`, or what an
installed package offers under the entry point group `callboard.platforms` (a
`PlatformEntry`, or a module with a `PLATFORM`). Nothing is imported before somebody
configures it. Of two with the same name the last registration wins: a package's
before a built-in one. One that is broken is reported, and keeps nothing else from
starting.
"""

import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import BaseModel, SecretStr, ValidationError

from actors.errors import StartError
from actors.gateway import platforms
from actors.gateway.chunks import SMALLEST_LIMIT, Unit
from actors.gateway.edge import Edge, EdgeContext
from actors.gateway.targets import account_name
from messages.delivery import Post
from messages.gateway import Origin
from messages.settings import PlatformSettings, UnknownOutcome

GROUP = "callboard.platforms"

TOKENS = ("token", "bot_token", "access_token")
"""Options that are one account of a platform by themselves."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What fits into one post."""

    length: int
    unit: Unit = Unit.CHARACTERS
    edits_per_second: float | None = None
    """How often a post in one chat may be changed; None: never."""
    edits_per_minute: float | None = None
    """The same over a minute, where that is less."""
    files: bool = False
    """Whether a post may be a file."""
    file_bytes: int | None = None
    """The largest file that we may post; None: no limit is known."""
    fetch_bytes: int | None = None
    """The largest file that we may fetch of what people attach."""
    caption: int | None = None
    """Length of the text that goes with a file, in `unit`; None: as `length`."""
    joins_at: int | None = None
    """People's own programs cut what is longer into several messages; in `unit`. None: they do not."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the platform can do."""

    threads: bool = False
    threads_stay: bool = False
    """Its threads are rooms that stay, as large as chats: what is said there is not said to us by itself."""
    buttons: bool = False
    edits: bool = False
    typing: bool = False
    reactions: bool = False
    idempotency_key: bool = False
    """A post with a key that was posted before is not posted again."""
    key_valid_s: float | None = None
    """How long the platform remembers a key, in seconds; None: for ever."""
    history: bool = False
    """What we posted can be looked up."""
    splits_itself: bool = False
    """Texts of any length may be handed over."""
    says_refusals: bool = False
    """The edge itself tells people why something was not taken (`Receipt.why`); else it is posted in the chat."""
    says_refusals_natively: bool = False
    """It does so for buttons and native commands alone."""
    unknown_outcome: UnknownOutcome = "send_again"
    """What suits the platform where neither a key nor the history can tell."""


def _nothing_missing() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Question:
    """What somebody who adds the platform is asked for."""

    option: str
    """The name in `options`."""
    text: str
    """What it is, in a few words: `Bot token`."""
    where: str = ""
    """Where it is found: `discord.com/developers → your application → Bot`."""
    variable: str = ""
    """The environment's variable that holds it; for secrets. It is written as ${NAME} into the settings."""
    optional: bool = False
    default: str = ""
    made: bool = False
    """A secret between us and somebody else: made at random when nothing is entered."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check of an account found."""

    ok: bool
    what: str
    remedy: str = ""
    """What to do about it; empty when all is well."""


Check = Callable[[Any, EdgeContext], Awaitable[tuple[Finding, ...]]]
"""From the configuration to what is to be said about the account: is the token good, are all permissions there?
Talks to the service, starts no connection that hears, posts nothing. Raises EdgeError when it cannot be reached."""


@dataclass(frozen=True)
class PlatformEntry:
    """All that the core knows about a platform."""

    name: str
    factory: Callable[[Any, EdgeContext], Edge]
    """Makes an edge of the configuration; connects nothing."""
    config: type[BaseModel]
    """What may stand in `options`."""
    limits: Limits
    capabilities: Capabilities = Capabilities()
    shape: Callable[[Any], tuple[Limits, Capabilities]] | None = None
    """Limits and capabilities where they depend on the configuration."""
    render: Callable[[Any], Callable[[str], str] | None] | None = None
    """From the configuration to what makes the platform's own markup of Markdown; its length is what counts."""
    check: Callable[[], str] = _nothing_missing
    """Says what is missing on this machine; empty when nothing is."""
    install_hint: str = ""
    required_env: tuple[str, ...] = ()
    home_variable: str = ""
    """The environment's variable with the home chat, for who does not set `home`."""
    pii_safe: bool = False
    """Whether its ids say nothing about people (numbers, not phone numbers or addresses)."""
    prompt_hint: str = ""
    """A line for the model: what the platform shows and what not."""
    standalone: Callable[[Any, Post], Awaitable[str]] | None = None
    """Posts without a running connection, where the platform allows it. Raises EdgeError."""
    title: str = ""
    """Its name for people: `Discord`."""
    questions: tuple[Question, ...] = ()
    """What `callboard platform add` asks for."""
    first_steps: str = ""
    """What to do on the platform before its first question can be answered; Markdown, a few lines."""
    checks_speakers: bool = False
    """Whether only who knows a secret is heard at all: then everybody who is heard may talk to us, unless
    the account's `access` names people or places."""
    target_of: Callable[[Any, Origin], str] | None = None
    """From the configuration and where a message came from to where its answers go, as a target; `origin`
    when they go back there."""
    examine: Check | None = None
    """For `callboard doctor` and `callboard platform add`."""


class PlatformUnavailableError(StartError):
    """A platform cannot be used here: `what`, and the `remedy`."""


@dataclass(frozen=True)
class Ready:
    """A platform with its checked configuration: all that starting one account needs."""

    entry: PlatformEntry
    account: str
    settings: PlatformSettings
    options: Any
    limits: Limits
    capabilities: Capabilities
    home: str | None
    render: Callable[[str], str] | None


@dataclass
class Registry:
    """The platforms by name. Knows their names at once, and the rest when it is asked."""

    sources: dict[str, Callable[[], object]] = field(default_factory=dict)
    _tokens: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)
    """By platform and token: the account that uses it."""

    @classmethod
    def discover(cls, offered: Iterable[EntryPoint] | None = None) -> "Registry":
        """Find the built-in platforms and those of installed packages. Imports none of them."""
        registry = cls()
        for module in pkgutil.iter_modules(platforms.__path__, platforms.__name__ + "."):
            name = module.name.rpartition(".")[2]
            if not name.startswith("_"):
                registry.sources[name] = _importer(module.name)
        for entry in entry_points(group=GROUP) if offered is None else offered:
            registry.sources[entry.name] = entry.load
        return registry

    def register(self, entry: PlatformEntry) -> None:
        """Add a platform, or put it in the place of the one of that name."""
        self.sources[entry.name] = lambda: entry

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.sources))

    def get(self, name: str) -> PlatformEntry:
        """Load a platform. Raises PlatformUnavailableError."""
        source = self.sources.get(name)
        if source is None:
            raise PlatformUnavailableError(
                f"There is no platform {name!r}.", f"Known here: {', '.join(self.names())}."
            )
        try:
            found = source()
            entry = getattr(found, "PLATFORM", found)
        except (Exception, SystemExit) as error:
            raise PlatformUnavailableError(
                f"The platform {name!r} cannot be loaded: {type(error).__name__}: {error}.",
                "Install what it needs, or remove it from `platforms`.",
            ) from error
        if not isinstance(entry, PlatformEntry):
            raise PlatformUnavailableError(
                f"The platform {name!r} offers no PlatformEntry but a {type(entry).__name__}.",
                "Its package must be mended.",
            )
        return entry

    def prepare(self, name: str, account: str, settings: PlatformSettings, env: Mapping[str, str]) -> Ready:
        """Check everything that can be checked without connecting. Raises PlatformUnavailableError."""
        entry = self.get(name)
        try:
            ready = _prepared(entry, account, settings, env)
        except PlatformUnavailableError:
            raise
        except Exception as error:
            raise PlatformUnavailableError(
                f"The platform {name!r} cannot be set up: {type(error).__name__}: {error}.",
                "Its package must be mended.",
            ) from error
        self._note_token(ready)
        return ready

    def _note_token(self, ready: Ready) -> None:
        """Two connections under one token hear the same: each message would be answered twice, or by halves."""
        name = account_name(ready.entry.name, ready.account)
        for option in TOKENS:
            token = getattr(ready.options, option, None)
            if not isinstance(token, SecretStr) or not token.get_secret_value():
                continue
            other = self._tokens.setdefault((ready.entry.name, token.get_secret_value()), name)
            if other != name:
                raise PlatformUnavailableError(
                    f"The account {name!r} uses the same `{option}` as {other!r}.",
                    "Give each account a token of its own, or remove one of the two from `platforms`.",
                )


def _prepared(
    entry: PlatformEntry, account: str, settings: PlatformSettings, env: Mapping[str, str]
) -> Ready:
    missing = entry.check()
    if missing:
        raise PlatformUnavailableError(f"The platform {entry.name!r}: {missing}", entry.install_hint)
    absent = [variable for variable in entry.required_env if not env.get(variable)]
    if absent:
        raise PlatformUnavailableError(
            f"The platform {entry.name!r} needs the environment's {', '.join(absent)}.",
            "Set it before the start.",
        )
    options = _options(entry, settings)
    limits, capabilities = entry.shape(options) if entry.shape else (entry.limits, entry.capabilities)
    if limits.length < SMALLEST_LIMIT:
        raise PlatformUnavailableError(
            f"The platform {entry.name!r}: posts of {limits.length} {limits.unit} are too short to be real.",
            f"At least {SMALLEST_LIMIT}.",
        )
    home = settings.home or (env.get(entry.home_variable) if entry.home_variable else None)
    render = entry.render(options) if entry.render else None
    return Ready(entry, account, settings, options, limits, capabilities, home, render)


def _options(entry: PlatformEntry, settings: PlatformSettings) -> BaseModel:
    try:
        return entry.config.model_validate(settings.plain_options())
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, e['loc'])) or 'options'}: {e['msg']}"
            for e in error.errors(include_url=False, include_input=False)
        ]
        raise PlatformUnavailableError(
            f"The options of the platform {entry.name!r} are wrong: {'; '.join(lines)}.",
            f"See docs/platforms/{entry.name}.md.",
        ) from None


def _importer(module: str) -> Callable[[], object]:
    return lambda: importlib.import_module(module)
