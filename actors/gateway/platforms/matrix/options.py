"""The options of the platform `matrix`, and what it can do."""

import ipaddress
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from actors.gateway.chunks import Unit
from actors.gateway.registry import Capabilities, Limits

LENGTH = 45_000
"""Bytes of text and HTML together. An event may have 65,536; encryption makes a third more of it, and
the servers add signatures."""

KEY_VALID_S = 1800.0
"""Servers promise to remember a transaction id, not for how long; the common ones do for half an hour."""


class MatrixOptions(BaseModel):
    """`platforms.matrix.options`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    homeserver: str
    """The address of the server's client API: `https://matrix.example.org`."""
    user_id: str = Field("", pattern=r"^(@[^:\s]+:\S+)?$", max_length=255)
    """Ours: `@callboard:example.org`. Needed with a password."""
    access_token: SecretStr | None = None
    password: SecretStr | None = None
    device_name: str = "Callboard"
    """How our login is named in lists of sessions."""
    accept_invites: bool = True
    invites_from: tuple[str, ...] = ("*",)
    """People whose invitations are accepted: ids, `*` for anything (`*:example.org`)."""
    encryption: bool = False
    """End-to-end encrypted rooms can be read and answered."""
    read_receipts: bool = True
    notices: bool = False
    """Write `m.notice` instead of `m.text`: other bots ignore it, and phones do not ring."""
    command_prefix: str = Field("!", max_length=3)
    """`!stop` is `/stop`: most clients keep a slash for themselves. Empty: only the slash."""
    fetch_mb: Annotated[float, Field(gt=0, le=1024)] = 25.0
    """The largest attachment that is fetched."""

    @field_validator("homeserver")
    @classmethod
    def _an_address(cls, address: str) -> str:
        parts = urlsplit(address.rstrip("/"))
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("write https://HOST or https://HOST:PORT")
        if parts.username or parts.password:
            raise ValueError("no user or password belongs into the address")
        if parts.scheme == "http" and not _on_this_machine(parts.hostname):
            raise ValueError(
                "http:// would show the token to the network; only a loopback address may use it"
            )
        return address.rstrip("/")

    @model_validator(mode="after")
    def _one_way_in(self) -> "MatrixOptions":
        if (self.access_token is None) == (self.password is None):
            raise ValueError("give access_token or password, one of them")
        if self.password is not None and not self.user_id:
            raise ValueError("user_id is needed with a password")
        return self

    @property
    def fetch_bytes(self) -> int:
        return int(self.fetch_mb * 1_000_000)


def _on_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


LIMITS = Limits(
    LENGTH,
    Unit.BYTES,
    edits_per_second=0.5,
    edits_per_minute=20,
    files=True,
    file_bytes=50_000_000,
    fetch_bytes=25_000_000,
)
CAPABILITIES = Capabilities(
    threads=True,
    edits=True,
    typing=True,
    reactions=True,
    idempotency_key=True,
    key_valid_s=KEY_VALID_S,
    history=True,
)


def shape(options: MatrixOptions) -> tuple[Limits, Capabilities]:
    """Limits and capabilities under these options."""
    limits = Limits(
        LENGTH,
        Unit.BYTES,
        edits_per_second=LIMITS.edits_per_second,
        edits_per_minute=LIMITS.edits_per_minute,
        files=True,
        file_bytes=LIMITS.file_bytes,
        fetch_bytes=options.fetch_bytes,
    )
    return limits, CAPABILITIES
