"""`platforms.telegram.options`, and what fits into Telegram's posts."""

import ipaddress
import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from actors.gateway.chunks import Unit
from actors.gateway.registry import Capabilities, Limits

API_URL = "https://api.telegram.org"
CAPTION = 1024
LENGTH = 4096
FETCH_BYTES = 20_000_000
POST_BYTES = 50_000_000
PHOTO_BYTES = 10_000_000
LOCAL_SERVER_BYTES = 2_000_000_000

LIMITS = Limits(
    length=LENGTH,
    unit=Unit.UTF16,
    edits_per_second=1,
    edits_per_minute=20,
    files=True,
    file_bytes=POST_BYTES,
    fetch_bytes=FETCH_BYTES,
    caption=CAPTION,
    joins_at=LENGTH,
)
CAPABILITIES = Capabilities(
    threads=True,
    threads_stay=True,
    buttons=True,
    edits=True,
    typing=True,
    reactions=True,
    unknown_outcome="send_again",
    says_refusals=True,
)


class WebhookOptions(BaseModel):
    """Telegram sends updates to an address of ours, instead of being asked for them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    """What Telegram sends to: `https://…`; a proxy of yours hands it on to `listen`."""
    secret: SecretStr
    """Comes with every update; 1 to 256 letters, digits, `_` and `-`."""
    listen: str = "127.0.0.1:8443"
    """Where we listen; the path is that of `url`."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        if urlsplit(url).scheme not in ("https", "http") or not urlsplit(url).hostname:
            raise ValueError("write https://HOST/PATH")
        return url

    @field_validator("secret")
    @classmethod
    def _telegram_takes_it(cls, secret: SecretStr) -> SecretStr:
        if not re.fullmatch(r"[A-Za-z0-9_-]{16,256}", secret.get_secret_value()):
            raise ValueError("16 to 256 letters, digits, `_` and `-`: Telegram takes no others")
        return secret

    @field_validator("listen")
    @classmethod
    def _is_a_port(cls, listen: str) -> str:
        host, _, port = listen.rpartition(":")
        if not host or not port.isdigit() or not 0 <= int(port) < 65536:
            raise ValueError("write HOST:PORT")
        return listen

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)


class TelegramOptions(BaseModel):
    """What may stand in `options`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    token: SecretStr
    """The bot's, from @BotFather."""
    api_url: str = API_URL
    """Of a Bot API server of your own."""
    local_server: bool = False
    """That server runs with `--local`: files up to 2 GB, read from its folder on this machine."""
    proxy: SecretStr | None = None
    """`http://…` for all calls."""
    link_previews: bool = False
    """Let Telegram fetch what our posts link to, and show it."""
    poll_s: Annotated[int, Field(ge=1, le=50)] = 30
    """How long Telegram keeps a question for updates open when there is nothing new."""
    answer_timeout_s: Annotated[float, Field(gt=0, le=120)] = 20.0
    """No answer to a post for so long: nobody knows whether it was posted."""
    fetch_timeout_s: Annotated[float, Field(gt=0, le=600)] = 20.0
    """How long a message waits for what is attached to it."""
    webhook: WebhookOptions | None = None

    @field_validator("token")
    @classmethod
    def _looks_like_one(cls, token: SecretStr) -> SecretStr:
        if not re.fullmatch(r"[0-9]{3,20}:[A-Za-z0-9_-]{10,100}", token.get_secret_value()):
            raise ValueError("a bot's token is digits, a colon, and about 35 letters, digits, `_` and `-`")
        return token

    @field_validator("api_url")
    @classmethod
    def _is_a_server(cls, url: str) -> str:
        split = urlsplit(url)
        if split.scheme not in ("http", "https") or not split.hostname:
            raise ValueError("write https://HOST, or http://127.0.0.1:PORT for a server on this machine")
        if split.scheme == "http" and not is_loopback(split.hostname):
            raise ValueError("the token would travel readable for all: write https://, or a loopback address")
        return url.rstrip("/")

    @property
    def bot_id(self) -> int:
        return int(self.token.get_secret_value().partition(":")[0])


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine by its name."""
    if host is None or host == "localhost":
        return host is not None
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def shape(options: TelegramOptions) -> tuple[Limits, Capabilities]:
    """Limits as they are with this server."""
    if not options.local_server:
        return LIMITS, CAPABILITIES
    most = LOCAL_SERVER_BYTES
    whole = {name: getattr(LIMITS, name) for name in LIMITS.__slots__}
    return Limits(**{**whole, "file_bytes": most, "fetch_bytes": most}), CAPABILITIES
