"""What may stand in `platforms.slack.options`."""

import ipaddress
from dataclasses import replace
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from actors.gateway.chunks import Unit
from actors.gateway.registry import Capabilities, Limits

TEXT_LIMIT = 4000
"""Slack takes 40,000 characters and cuts the rest; up to 4,000 a message stays one that people can read."""

MOST_POSTED_BYTES = 1_000_000_000


class SlackOptions(BaseModel):
    """`platforms.slack.options`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bot_token: SecretStr
    app_token: SecretStr | None = None
    signing_secret: SecretStr | None = None
    mode: Literal["socket", "events"] = "socket"
    listen: str = "127.0.0.1:8083"
    path: str = "/slack/events"
    reply_in_thread: bool = True
    unfurl: bool = False
    fetch_mb: Annotated[float, Field(gt=0, le=1000)] = 20
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 20
    heartbeat_s: Annotated[float, Field(gt=0, le=60)] = 15
    base_url: str = "https://slack.com/api/"

    @field_validator("bot_token", "app_token", "signing_secret")
    @classmethod
    def _not_blank(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None and not secret.get_secret_value().strip():
            raise ValueError("is empty")
        return secret

    @field_validator("bot_token")
    @classmethod
    def _a_bots(cls, token: SecretStr) -> SecretStr:
        if token.get_secret_value().startswith("xapp-"):
            raise ValueError("this is the app-level token (xapp-…); the bot token begins with xoxb-")
        return token

    @field_validator("app_token")
    @classmethod
    def _an_apps(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and token.get_secret_value().startswith("xox"):
            raise ValueError("this is no app-level token; that one begins with xapp-")
        return token

    @field_validator("listen")
    @classmethod
    def _a_place_to_listen(cls, listen: str) -> str:
        host, _, port = listen.rpartition(":")
        if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
            raise ValueError("write HOST:PORT")
        return listen

    @field_validator("path")
    @classmethod
    def _a_path(cls, path: str) -> str:
        if not path.startswith("/") or "{" in path:
            raise ValueError("write a path that begins with /")
        return path

    @field_validator("base_url")
    @classmethod
    def _encrypted(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
            raise ValueError("must begin with https://")
        return url if url.endswith("/") else f"{url}/"

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.mode == "socket" and self.app_token is None:
            raise ValueError("mode socket needs app_token (xapp-…)")
        if self.mode == "events" and self.signing_secret is None:
            raise ValueError("mode events needs signing_secret")
        return self

    @property
    def fetch_bytes(self) -> int:
        """The largest file that is fetched."""
        return int(self.fetch_mb * 1_000_000)


def is_loopback(host: str) -> bool:
    """Say whether a host is this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


LIMITS = Limits(
    TEXT_LIMIT,
    Unit.CHARACTERS,
    edits_per_second=0.5,
    edits_per_minute=15,  # 50 a minute for all chats together
    files=True,
    file_bytes=MOST_POSTED_BYTES,
    fetch_bytes=20_000_000,
    caption=TEXT_LIMIT,
)
CAPABILITIES = Capabilities(threads=True, buttons=True, edits=True, typing=True, reactions=True, history=True)


def shape(options: SlackOptions) -> tuple[Limits, Capabilities]:
    """Return what fits, where it depends on the options."""
    return replace(LIMITS, fetch_bytes=options.fetch_bytes), CAPABILITIES
