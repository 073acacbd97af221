"""The options of the platform `email`, and what it can do."""

import ipaddress
import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from actors.gateway.registry import Capabilities, Limits

ADDRESS = re.compile(r"[^@\s<>\"(),:;\\\[\]\x00-\x20\x7f]{1,64}@[^@\s<>\"(),:;\\\[\]\x00-\x20\x7f]{1,250}")
"""A mail address as people write it. Quoted local parts and addresses without a domain are none."""

LENGTH = 100_000
Security = Literal["tls", "starttls", "none"]


class EmailOptions(BaseModel):
    """`platforms.email.options`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str
    """Ours: what people write to, and what we write from."""
    name: str = Field("Callboard", max_length=80)
    """The name beside our address."""
    password: SecretStr
    username: str = ""
    """For both servers, where it is not the address."""
    imap_host: str = Field(min_length=1)
    imap_port: Annotated[int, Field(ge=1, le=65535)] = 993
    imap_security: Security = "tls"
    smtp_host: str = Field(min_length=1)
    smtp_port: Annotated[int, Field(ge=1, le=65535)] = 465
    smtp_security: Security = "tls"
    smtp_login: bool = True
    """Whether the server for sending wants a login."""
    smtp_password: SecretStr | None = None
    """Where it is another one than the IMAP server's."""
    folder: str = "INBOX"
    sent_folder: str | None = None
    """Where a copy of what we send goes; unset: the folder that the server calls its sent one."""
    keep_copy: Literal["sent", "self", "none"] = "sent"
    """`self`: a copy is sent to ourselves with each mail. It proves what was sent, whatever happens."""
    trusted_authserv: str | None = None
    """The name by which our own server signs its checks of senders. With it, mail that it could not
    check is not answered. Without it, anybody can write under any address."""
    aliases: tuple[str, ...] = ()
    """Further addresses of ours: mail from them is our own."""
    idle_minutes: Annotated[float, Field(gt=0, le=28)] = 5.0
    """How long the server is listened to before it is asked again. Home routers forget quiet connections."""
    poll_s: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """How often a server is asked that cannot tell by itself (no IDLE)."""
    fetch_mb: Annotated[float, Field(gt=0, le=100)] = 25.0
    """The largest mail that is fetched whole."""
    file_mb: Annotated[float, Field(gt=0, le=100)] = 15.0
    """The largest file that is sent. Servers refuse mails of more than 20 to 35 MB, and mail makes files a
    third larger."""

    @field_validator("address")
    @classmethod
    def _an_address(cls, address: str) -> str:
        if not ADDRESS.fullmatch(address):
            raise ValueError("write name@example.org")
        return address

    @field_validator("aliases")
    @classmethod
    def _addresses(cls, aliases: tuple[str, ...]) -> tuple[str, ...]:
        if not all(ADDRESS.fullmatch(alias) for alias in aliases):
            raise ValueError("write name@example.org")
        return aliases

    @model_validator(mode="after")
    def _encrypted(self) -> "EmailOptions":
        for host, security in ((self.imap_host, self.imap_security), (self.smtp_host, self.smtp_security)):
            if security == "none" and not _on_this_machine(host):
                raise ValueError(f"{host}: without tls the password would be shown to the network")
        return self

    @property
    def login(self) -> str:
        return self.username or self.address

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2].lower()

    @property
    def ours(self) -> frozenset[str]:
        return frozenset(each.lower() for each in (self.address, *self.aliases))

    @property
    def fetch_bytes(self) -> int:
        return int(self.fetch_mb * 1_000_000)

    @property
    def file_bytes(self) -> int:
        return int(self.file_mb * 1_000_000)


def _on_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


LIMITS = Limits(LENGTH, files=True, file_bytes=15_000_000, fetch_bytes=25_000_000)
CAPABILITIES = Capabilities(threads=True, history=True)


def shape(options: EmailOptions) -> tuple[Limits, Capabilities]:
    """Limits and capabilities under these options."""
    limits = Limits(LENGTH, files=True, file_bytes=options.file_bytes, fetch_bytes=options.fetch_bytes)
    return limits, Capabilities(threads=True, history=options.keep_copy != "none")
