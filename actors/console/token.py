"""The HTTP server's token."""

import os
import secrets
from pathlib import Path

from pydantic import SecretStr

from messages.settings import ServerSettings


def token_of(settings: ServerSettings, home: Path) -> SecretStr:
    """Return the configured token, else the one made at the first start and kept for this user alone."""
    if settings.token is not None:
        return settings.token
    path = home / "token"
    if not path.exists():
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
    return SecretStr(path.read_text().strip())
