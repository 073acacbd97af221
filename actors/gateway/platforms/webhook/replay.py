"""What came lately, so that the same signed content is the same message, whatever id is written beside it."""

import hashlib
import secrets
from collections import OrderedDict
from datetime import datetime
from typing import Final

from actors.gateway.platforms.webhook.verify import Verified

MOST: Final = 20_000
"""Calls that are remembered; about 5 MB."""


class ReplayMemory:
    """Gives each believed call the id of its message. Bounded, and of this life alone."""

    def __init__(self, window_s: float, most: int = MOST) -> None:
        self._window_s = window_s
        self._most = most
        self._seen: OrderedDict[str, tuple[str, float]] = OrderedDict()
        """By the signed content: the id, and when it came."""

    def message_id(self, route: str, verified: Verified, given: str, now: datetime) -> str:
        """Return the id of a call's message; `given` is what the service calls the delivery, empty for nothing.

        The same content within the window has the id it had before: an id that is not
        signed cannot make a new message of an old call.
        """
        if verified.delivery:
            return verified.delivery
        if verified.content is None:
            return given or secrets.token_hex(16)
        at = now.timestamp()
        content = f"{route}:{verified.content}"
        self._forget(at)
        known = self._seen.get(content)
        if known is not None:
            return known[0]
        message_id = given or self._made(content, at, timed=verified.sent_at is not None)
        self._seen[content] = (message_id, at)
        return message_id

    def _made(self, content: str, at: float, *, timed: bool) -> str:
        """The same for the same content within a window, also after a restart; for ever when its time is signed."""
        window = "" if timed else f":{int(at // self._window_s)}"
        return hashlib.sha256(f"{content}{window}".encode()).hexdigest()[:32]

    def _forget(self, at: float) -> None:
        while self._seen:
            _, since = next(iter(self._seen.values()))
            if at - since <= self._window_s and len(self._seen) < self._most:
                return
            self._seen.popitem(last=False)

    def __len__(self) -> int:
        return len(self._seen)
