"""What may stand in `platforms.discord.options`."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

MEBIBYTE = 1 << 20


class DiscordOptions(BaseModel):
    """One bot account."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    token: SecretStr
    """Of the bot: discord.com/developers → your application → Bot → Reset Token."""
    message_content: bool = True
    """Ask for the Message Content intent. Without it, only mentions, replies to us and DMs can be read."""
    register_commands: bool = True
    """Offer the slash commands in Discord's own menu."""
    file_bytes: Annotated[int, Field(ge=1)] = 10 * MEBIBYTE
    """The largest file to post. Discord allows more on servers with boosts."""
    fetch_bytes: Annotated[int, Field(ge=1)] = 20 * MEBIBYTE
    """The largest attachment to fetch."""
    api: str = "https://discord.com/api/v10"
    """Another address of the REST API: a proxy, or a compatible server."""
    proxy: str | None = None
    """An HTTP proxy for all connections: `http://host:port`."""
    history: Annotated[int, Field(ge=0, le=1000)] = 200
    """So many missed messages of a channel are fetched after a gap, at most."""

    @field_validator("token")
    @classmethod
    def _bare(cls, token: SecretStr) -> SecretStr:
        bare = token.get_secret_value().strip().removeprefix("Bot ").strip()
        if not bare or not bare.isascii() or any(not 32 < ord(c) < 127 for c in bare):
            raise ValueError("write the bot's token, in one line and without spaces")
        return SecretStr(bare)

    @field_validator("api")
    @classmethod
    def _address(cls, api: str) -> str:
        parts = urlsplit(api)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("write an address that begins with https:// or http://")
        return api.rstrip("/")
