"""Which providers there are: those of the settings, those whose key is in the environment.

The defaults name a current, general model of each provider; docs/models.md lists them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from actors.session.models.where import Where
from messages.model import ModelRef
from messages.settings import ProviderSettings, Settings

Protocol = Literal["openai-chat", "anthropic-messages"]

LOCAL = "local"
"""The provider's name of the embedded model."""
LOCAL_MODEL = "smollm2-135m-instruct"
LOCAL_WINDOW = 8192


@dataclass(frozen=True, slots=True)
class WellKnown:
    """A provider that needs nothing but its key."""

    name: str
    variables: tuple[str, ...]
    protocol: Protocol
    base_url: str | None
    model: str


WELL_KNOWN = (
    WellKnown("openai", ("OPENAI_API_KEY",), "openai-chat", None, "gpt-5.4-mini"),
    WellKnown("anthropic", ("ANTHROPIC_API_KEY",), "anthropic-messages", None, "claude-sonnet-5-5"),
    WellKnown(
        "openrouter",
        ("OPENROUTER_API_KEY",),
        "openai-chat",
        "https://openrouter.ai/api/v1",
        "openrouter/auto",
    ),
    WellKnown(
        "gemini",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "openai-chat",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "gemini-flash-latest",
    ),
    WellKnown(
        "mistral", ("MISTRAL_API_KEY",), "openai-chat", "https://api.mistral.ai/v1", "mistral-medium-latest"
    ),
    WellKnown(
        "deepseek", ("DEEPSEEK_API_KEY",), "openai-chat", "https://api.deepseek.com/v1", "deepseek-chat"
    ),
    WellKnown(
        "groq", ("GROQ_API_KEY",), "openai-chat", "https://api.groq.com/openai/v1", "openai/gpt-oss-120b"
    ),
    WellKnown("xai", ("XAI_API_KEY",), "openai-chat", "https://api.x.ai/v1", "grok-4"),
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A provider as it can be called."""

    name: str
    protocol: Protocol
    base_url: str | None
    key: str | None
    key_setting: str
    limits: ProviderSettings
    default_model: str | None = None

    @property
    def on_this_machine(self) -> bool:
        host = urlsplit(self.base_url or "").hostname or ""
        return host in ("localhost", "127.0.0.1", "::1") or host.startswith("127.")

    @property
    def address(self) -> str:
        if self.base_url is not None:
            return without_password(self.base_url)
        return (
            "https://api.anthropic.com"
            if self.protocol == "anthropic-messages"
            else "https://api.openai.com/v1"
        )

    def where(self, model: ModelRef) -> Where:
        return Where(
            model=model,
            address=self.address,
            key_setting=self.key_setting,
            secrets=(self.key,) if self.key else (),
            on_this_machine=self.on_this_machine,
        )


def without_password(url: str) -> str:
    """Return the URL without a user's name and password in it, and without a query."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def endpoints(settings: Settings, env: Mapping[str, str]) -> dict[str, Endpoint]:
    """Return the configured providers in their order, then those with a key in the environment."""
    known = {provider.name: provider for provider in WELL_KNOWN}
    found: dict[str, Endpoint] = {}
    for name, entry in settings.providers.items():
        found[name] = _configured(name, entry, known.get(name), env)
    for provider in WELL_KNOWN:
        variable, key = _key_in(env, provider)
        if key is not None and provider.name not in found:
            found[provider.name] = Endpoint(
                name=provider.name,
                protocol=provider.protocol,
                base_url=provider.base_url,
                key=key,
                key_setting=f"{variable} in the environment",
                limits=ProviderSettings(protocol=provider.protocol, base_url=provider.base_url),
                default_model=provider.model,
            )
    return found


def _configured(
    name: str, provider: ProviderSettings, known: WellKnown | None, env: Mapping[str, str]
) -> Endpoint:
    """Read one entry of the settings; a well-known name fills in what it leaves out."""
    key = provider.api_key.get_secret_value().strip() if provider.api_key is not None else None
    setting = f"`providers.{name}.api_key` in callboard.yaml"
    base_url, protocol = provider.base_url, provider.protocol
    default_model = None
    # The environment's key goes to its own provider only, never to another address.
    if known is not None and base_url in (None, known.base_url):
        base_url, default_model = known.base_url, known.model
        if "protocol" not in provider.model_fields_set:
            protocol = known.protocol
        if not key:
            variable, key = _key_in(env, known)
            setting = f"{variable} in the environment, or {setting}"
    return Endpoint(
        name=name,
        protocol=protocol,
        base_url=base_url.rstrip("/") if base_url else None,
        key=key or None,
        key_setting=setting,
        limits=provider,
        default_model=default_model,
    )


def _key_in(env: Mapping[str, str], provider: WellKnown) -> tuple[str, str | None]:
    for variable in provider.variables:
        key = env.get(variable, "").strip()
        if key:
            return variable, key
    return provider.variables[0], None


_WINDOWS: tuple[tuple[str, int], ...] = (
    ("gpt-3.5", 16_385),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-4", 8_192),
    ("gpt-5", 400_000),
    ("gpt-oss", 131_072),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
    ("claude", 200_000),
    ("gemini", 1_048_576),
    ("grok-4", 256_000),
    ("deepseek", 128_000),
    ("mistral", 128_000),
    ("codestral", 256_000),
    ("llama-3.2", 128_000),
    ("llama-3.3", 128_000),
    ("llama-3.1", 128_000),
    ("llama-3", 8_192),
    ("qwen3", 131_072),
    ("qwen2.5", 32_768),
    ("smollm2", 8_192),
)
DEFAULT_WINDOW = 128_000


def window_of(name: str) -> int:
    """Return the context window of a model by its name, 128,000 for a name that is not known."""
    bare = name.lower().rpartition("/")[2]
    best = max(
        (entry for entry in _WINDOWS if bare.startswith(entry[0])), key=lambda e: len(e[0]), default=None
    )
    return best[1] if best else DEFAULT_WINDOW
