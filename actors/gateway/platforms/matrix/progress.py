"""How far reading has come: what may be written down as read."""

from dataclasses import dataclass, field


@dataclass
class Progress:
    """Which sync token may be kept: one whose events, and all before them, have been handed in."""

    kept: str = ""
    _batches: list[tuple[str, int]] = field(default_factory=list)
    """Tokens in order, with how many of their events are on the way."""

    def begins(self, token: str, events: int) -> None:
        self._batches.append((token, events))

    def handed_in(self, token: str) -> str | None:
        """One event of a batch is durable: return the token that may be kept now, if there is a newer one."""
        self._batches = [(each, left - (each == token)) for each, left in self._batches]
        return self.settled()

    def settled(self) -> str | None:
        newest = None
        while self._batches and self._batches[0][1] <= 0:
            newest = self._batches.pop(0)[0]
        if newest is not None:
            self.kept = newest
        return newest

    @property
    def on_the_way(self) -> int:
        return sum(left for _, left in self._batches)
