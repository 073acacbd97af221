"""What an operator can set. One frozen model per room; an empty file is a valid file.

`run_system.py` reads them from `callboard.yaml` in the data folder, replaces
`${NAME}` by the environment's value, and hands each room its own part. The JSON
schema that editors use comes from `Settings.model_json_schema()`.
"""

import re
from enum import StrEnum
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator


class Part(BaseModel):
    """A part of the settings: frozen, nothing unknown, numbers and words of the right type."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class BusyPolicy(StrEnum):
    """What a message does that comes while a turn is running."""

    INTERRUPT = "interrupt"
    """Cancel now and start again with both messages."""
    QUEUE = "queue"
    """First in, first out; each its own turn."""
    COLLECT = "collect"
    """All that wait become one turn."""
    STEER = "steer"
    """Added after the tools that are running; the next turn when the turn ends first."""


class ProviderSettings(Part):
    """A service that answers as a model."""

    protocol: Literal["openai-chat", "anthropic-messages"] = "openai-chat"
    base_url: str | None = Field(None, description="Without it, the SDK's own address.")
    api_key: SecretStr | None = Field(None, description="Write ${NAME}, not the key itself.")
    context_window: Annotated[int, Field(ge=1024)] | None = Field(
        None, description="Tokens. Without it, what is known of the model, else 128,000."
    )
    max_concurrent: Annotated[int, Field(ge=1)] = Field(
        2000, description="Calls at once; more wait their turn."
    )
    first_byte_timeout_s: Annotated[float, Field(gt=0)] = Field(
        300.0, description="How long the first piece of an answer may take (long for reasoning models)."
    )
    silence_timeout_s: Annotated[float, Field(gt=0)] = Field(
        120.0, description="How long a stream may be silent before it counts as stale."
    )


class ModelSettings(Part):
    """Which model answers. Nothing set: found by itself, see docs/configuration.md."""

    provider: str = Field("auto", description="`auto`, or the name of an entry of `providers`.")
    name: str | None = Field(None, description="The model's name as its provider calls it.")
    fallbacks: tuple[str, ...] = Field(
        (), description="`provider/model`, tried in this order when the first cannot answer."
    )
    max_output_tokens: Annotated[int, Field(ge=1)] = 4096
    attempts: Annotated[int, Field(ge=1, le=20)] = Field(5, description="Tries of one call, all told.")


class ResetSettings(Part):
    """When a conversation begins anew by itself."""

    policy: Literal["none", "idle", "daily", "both"] = "none"
    idle_minutes: Annotated[int, Field(ge=1)] = Field(24 * 60, description="After so long without a message.")
    at_hour: Annotated[int, Field(ge=0, le=23)] = Field(4, description="Each day at this hour.")
    timezone: str = Field("UTC", description="Of `at_hour`; such as Europe/Berlin.")

    @field_validator("timezone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(
                f"{name!r} is no time zone that is known here; write it as in Europe/Berlin, or UTC"
            ) from None
        return name


class SessionSettings(Part):
    """How conversations go."""

    busy_dm: BusyPolicy = BusyPolicy.INTERRUPT
    busy_group: BusyPolicy = BusyPolicy.QUEUE
    busy_api: BusyPolicy = BusyPolicy.QUEUE
    model_calls_per_turn: Annotated[int, Field(ge=1)] = Field(90, description="The iteration budget.")
    queue_limit: Annotated[int, Field(ge=1)] = Field(
        200, description="Messages that may wait in one session; the next is refused aloud."
    )
    sleep_after_s: Annotated[float, Field(gt=0)] = Field(
        120.0, description="An idle session leaves memory after this; its history stays."
    )
    most_awake: Annotated[int, Field(ge=1)] = Field(
        20_000, description="Above this many, the idle ones least used leave memory earlier."
    )
    reset: ResetSettings = ResetSettings()
    approval_timeout_s: Annotated[float, Field(gt=0)] = Field(
        600.0, description="A question for approval that nobody answers counts as no after this."
    )
    resume_within_minutes: Annotated[float, Field(ge=0)] = Field(
        60.0,
        description="A turn that a restart interrupted goes on by itself when it is no older than this; "
        "else the person is told, and /retry answers it.",
    )
    personalities: dict[str, str] = Field(
        {}, description="Names for /personality, and what each adds to the system prompt."
    )
    instructions: str = Field(
        "You are a helpful assistant in a chat. Answer briefly and plainly, in the language you are spoken to.",
        description="The system prompt.",
    )


class ToolSettings(Part):
    """What tools may do."""

    allow: tuple[str, ...] = Field(
        (), description="Tools that may write or run commands without asking: names, or `*` for all."
    )
    disable: tuple[str, ...] = Field((), description="Tools that no model is shown.")
    workspace: str | None = Field(None, description="Where files are; else `workspace` in the data folder.")
    pass_env: tuple[str, ...] = Field((), description="Environment variables that commands may see.")
    private_network: bool = Field(False, description="Whether fetch_url may reach private addresses.")
    timeout_s: Annotated[float, Field(gt=0)] = Field(120.0, description="For a tool that names none.")
    result_bytes: Annotated[int, Field(ge=1000)] = Field(
        50_000, description="How much of a result the model is given; the rest stays in a file."
    )
    parallel: Annotated[int, Field(ge=1, le=64)] = Field(8, description="Calls of one turn at once.")


class ServerSettings(Part):
    """The HTTP server."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = Field(8632, description="0 takes any free port.")
    token: SecretStr | None = Field(
        None, description="Else one is made at the first start and kept in the data folder."
    )
    allowed_hosts: tuple[str, ...] = Field(
        (), description="Names under which this server may be addressed, besides its own address."
    )
    allowed_origins: tuple[str, ...] = Field(
        (), description="Web pages that may call this server, besides its own."
    )


class StoreSettings(Part):
    """The database."""

    memory_limit: Annotated[str, Field(pattern=r"^\d+(\.\d+)?\s?[KMG]i?B$")] | None = Field(
        None,
        description="How much memory queries may take, such as `2GB`; else 40 % of the machine's or the container's.",
    )
    threads: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="How many threads may work on queries; else one for each processor but the first, at least one.",
    )
    checkpoint_wal: str = Field("16MB", pattern=r"^\d+(\.\d+)?\s?[KMG]i?B$")
    spill_limit: str = Field(
        "4GB",
        pattern=r"^\d+(\.\d+)?\s?[KMG]i?B$",
        description="Disk that queries may use for what does not fit into `memory_limit`.",
    )


class PriceSettings(Part):
    """What a model costs, in US dollars per million tokens; the name is `provider/model` or `model`, `*` for anything."""

    input_usd: Annotated[float, Field(ge=0)] = Field(description="Tokens read.")
    output_usd: Annotated[float, Field(ge=0)] = Field(description="Tokens written.")
    cache_read_usd: Annotated[float, Field(ge=0)] | None = Field(
        None, description="Tokens read from the provider's cache; else as `input_usd`."
    )
    cache_write_usd: Annotated[float, Field(ge=0)] | None = Field(
        None, description="Tokens written to the provider's cache; else as `input_usd`."
    )
    input_has_cache: bool | None = Field(
        None,
        description="Whether the provider counts cached tokens among those read; else no for `claude`, yes for others.",
    )


class RetentionSettings(Part):
    """What is deleted by itself, in quiet moments. Nothing, unless it is set."""

    days: Annotated[int, Field(ge=1)] | None = Field(
        None, description="A conversation in which nothing has happened for so many days is deleted."
    )
    keep_results_days: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Kept files of long tool results, and what people attached, are deleted after so many days.",
    )


class LogSettings(Part):
    """The logs."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "console", "json"] = Field("auto", description="`auto`: console on a terminal.")


class HookSettings(Part):
    """User code that hears lifecycle events. See docs/hooks.md."""

    files: tuple[str, ...] = Field((), description="`path/to/file.py:function`")
    timeout_s: Annotated[float, Field(gt=0)] = 10.0


UnknownOutcome = Literal["send_again", "leave"]
"""What to do with a post of which nobody knows whether it was made, and nothing can tell."""


_SECRET_OPTION = re.compile(r"secret|token|password|passwd|credential|(^|_)key$|api_?key", re.IGNORECASE)


class AccessSettings(Part):
    """Who may speak where, and to whom we answer; by the platform's ids. Changed live with `callboard access`.

    Chats and threads are written `chat` or `chat:thread`, as in targets.
    """

    owners: tuple[str, ...] = Field((), description="People who may do everything.")
    admins: tuple[str, ...] = Field(
        (), description="People who may change access, settings of chats, and approve."
    )
    users: tuple[str, ...] = Field((), description="People who may talk to us; `*`: anybody.")
    servers: tuple[str, ...] = Field(
        (), description="Servers (guilds, workspaces) whose members may, in its chats."
    )
    chats: tuple[str, ...] = Field((), description="Chats and threads whose members may, there; `*`: any.")
    blocked: tuple[str, ...] = Field((), description="People who never may.")
    unknown_dm: Literal["pair", "ignore"] = Field(
        "pair", description="What a stranger gets who writes a direct message: a pairing code, or nothing."
    )
    answer: Literal["addressed", "always"] = Field(
        "addressed", description="In groups: only what mentions us or replies to us, or everything."
    )
    free_chats: tuple[str, ...] = Field((), description="Chats and threads in which everything is answered.")
    quiet_chats: tuple[str, ...] = Field(
        (), description="Those in which only what is addressed is, whatever `answer` says."
    )
    sessions: Literal["per_user", "shared"] = Field(
        "per_user", description="In groups: a conversation for each person, or one for all."
    )
    threads: Literal["per_user", "shared"] = Field("shared", description="The same in threads.")
    shared_chats: tuple[str, ...] = Field((), description="Chats with one conversation for all.")
    follow_threads: bool = Field(
        True,
        description="In a thread in which we were spoken to or answered within a day, what follows needs no mention.",
    )
    overheard: Annotated[int, Field(ge=0, le=500)] = Field(
        30, description="Messages not said to us that are given along as context; 0: none."
    )
    bots: Literal["ignore", "addressed"] = Field("ignore", description="What messages of other programs get.")
    bot_turns: Annotated[int, Field(ge=1)] = Field(
        3, description="Answers to programs in one chat without a person speaking between them."
    )
    user_per_minute: Annotated[int, Field(ge=1)] = Field(
        20, description="Messages of one person that are taken."
    )
    chat_per_minute: Annotated[int, Field(ge=1)] = Field(
        60, description="Messages in one chat that are taken."
    )
    approvers: Literal["admins", "requester", "anyone"] = Field(
        "admins",
        description="Who may approve a tool: admins and owners, also who asked, or all who may talk.",
    )
    command_roles: dict[str, Literal["user", "admin", "owner"]] = Field(
        {}, description="The role that a slash command needs, by its name, where it differs from the usual."
    )


class ResetByChatSettings(Part):
    """Reset policies by the type of chat; those that are not set are as in `session.reset`."""

    dm: ResetSettings | None = None
    group: ResetSettings | None = None
    thread: ResetSettings | None = None


class LiveSettings(Part):
    """What people see while an answer is being made."""

    typing: bool = True
    drafts: bool = Field(
        True, description="The answer grows while it is written, where the platform can edit."
    )
    reactions: bool = Field(True, description="A sign on the message: seen, working, done.")


class ProfileSettings(Part):
    """A persona with its own prompt, model, tools and files. What is not set is as for everybody."""

    instructions: str | None = Field(None, description="The system prompt.")
    model: str | None = Field(None, description="`provider/model`; the provider's key is the profile's key.")
    tools_allow: tuple[str, ...] | None = Field(None, description="As tools.allow.")
    tools_disable: tuple[str, ...] | None = Field(None, description="As tools.disable.")
    workspace: str | None = Field(
        None, description="Its own folder; else `profiles/NAME` in the data folder."
    )


class RouteSettings(Part):
    """Who gets which profile: the first route whose every named part fits."""

    profile: str
    platform: str | None = Field(None, description="`platform`, or `platform/account`.")
    server: str | None = None
    chat: str | None = None
    thread: str | None = None
    user: str | None = None


class PlatformSettings(Part):
    """One account on a chat platform. `options` are the platform's own, see docs/platforms/."""

    enabled: bool = Field(True, description="Whether it is connected at the start.")
    access: AccessSettings = AccessSettings()
    live: LiveSettings = LiveSettings()
    reset: ResetByChatSettings = ResetByChatSettings()
    isolation: Literal["none", "process"] = Field(
        "none", description="`process`: its connection lives in a process of its own."
    )
    max_age_minutes: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="Messages that were written longer ago, while we were away, get a notice instead of an answer.",
    )
    start_timeout_s: Annotated[float, Field(gt=0)] = Field(
        30.0, description="How long a first connection may take before it is given up and tried anew."
    )
    quiet_probe_s: Annotated[float, Field(gt=0)] = Field(
        300.0, description="After so long without hearing anything, the connection is probed."
    )
    home: str | None = Field(
        None, description="`chat` or `chat:thread`: where what answers nobody is said. Encode `:` as %3A."
    )
    at_once: Annotated[int, Field(ge=1, le=256)] = Field(8, description="Posts to different chats at once.")
    most_parts: Annotated[int, Field(ge=1)] = Field(
        10, description="A longer answer comes as a file, or is cut with a pointer to the history."
    )
    attempts: Annotated[int, Field(ge=1)] = Field(
        20, description="Tries of one post before it is given up; 20 last about ten minutes."
    )
    unknown_outcome: UnknownOutcome | None = Field(
        None,
        description="Where neither a key nor the history can tell whether a post was made: `send_again` once, "
        "marked as a possible duplicate, or `leave` it and report. Without it, as suits the platform.",
    )
    options: dict[str, Any] = Field({}, description="The platform's own; see docs/platforms/.")

    @field_validator("options")
    @classmethod
    def _hide_secrets(cls, options: dict[str, Any]) -> dict[str, Any]:
        """Options are checked by the platform, later; until then their names say which are secrets."""
        return {name: _hidden(name, value) for name, value in options.items()}

    def plain_options(self) -> dict[str, Any]:
        """Return the options as they were written, for the platform's own check."""
        return {name: _unhidden(value) for name, value in self.options.items()}


def _hidden(name: str, value: Any) -> Any:
    match value:
        case dict():
            return {inner: _hidden(inner, each) for inner, each in value.items()}
        case str() if _SECRET_OPTION.search(name):
            return SecretStr(value)
        case _:
            return value


def _unhidden(value: Any) -> Any:
    match value:
        case dict():
            return {name: _unhidden(each) for name, each in value.items()}
        case SecretStr():
            return value.get_secret_value()
        case _:
            return value


class SearchSettings(Part):
    """The full-text search in the history."""

    enabled: bool = Field(True, description="Whether an index is kept. Without it, nothing can be searched.")


class Settings(Part):
    """All of callboard.yaml."""

    model: ModelSettings = ModelSettings()
    providers: dict[str, ProviderSettings] = {}
    session: SessionSettings = SessionSettings()
    tools: ToolSettings = ToolSettings()
    server: ServerSettings = ServerSettings()
    store: StoreSettings = StoreSettings()
    log: LogSettings = LogSettings()
    hooks: HookSettings = HookSettings()
    platforms: dict[str, PlatformSettings] = Field(
        {}, description="By the platform's name, or `platform/account` for a second account."
    )
    profiles: dict[str, ProfileSettings] = Field(
        {}, description="Personas by name; `main` is the one that is always there."
    )
    routes: tuple[RouteSettings, ...] = Field(
        (), description="Who gets which profile; `main` where none fits."
    )
    search: SearchSettings = SearchSettings()
    prices: dict[str, PriceSettings] = {}
    retention: RetentionSettings = RetentionSettings()
