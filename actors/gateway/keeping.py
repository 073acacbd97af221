"""What an account's edge keeps on disk between its connections: where it stopped reading, its login.

The folder stands beside the one for attachments. Files are written whole or not at all.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import structlog

from actors.gateway.edge import EdgeContext

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Keeping:
    """The folder of one account."""

    folder: Path

    @classmethod
    def of(cls, context: EdgeContext) -> "Keeping":
        # The dot keeps it apart from the attachments of an account of that name.
        name = f".{context.platform}-{quote(context.account, safe='')}"
        return cls(context.files.parent / name)

    def read(self, name: str) -> dict[str, Any]:
        """Return what was kept under a name; nothing when there is none, or it cannot be read."""
        try:
            kept = json.loads((self.folder / f"{name}.json").read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("what was kept cannot be read", file=name, error=str(error))
            return {}
        return kept if isinstance(kept, dict) else {}

    def write(self, name: str, what: dict[str, Any]) -> None:
        """Keep this under a name; readable by us alone."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path, fresh = self.folder / f"{name}.json", self.folder / f"{name}.new"
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(json.dumps(what).encode())
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
