"""The table of docs/platforms/README.md, from what the platforms say of themselves."""

import sys
from pathlib import Path

from actors.gateway.chunks import Unit
from actors.gateway.registry import PlatformEntry, Registry

BEGIN = "<!-- platforms: made by `make docs` -->"
END = "<!-- end -->"
_HEAD = (
    (
        "| platform | longest post | threads | buttons | edits a minute | typing | reactions | files, largest "
        "| before posting again |"
    ),
    "|---|---|---|---|---|---|---|---|---|",
)
_UNITS = {Unit.CHARACTERS: "characters", Unit.UTF16: "UTF-16 units", Unit.BYTES: "bytes"}


def table(registry: Registry) -> str:
    """Return a line for each platform that is built in."""
    return "\n".join([*_HEAD, *(_row(registry.get(name)) for name in registry.names())])


def with_table(page: str, registry: Registry) -> str:
    """Return the page with the table as it should be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(registry)}\n\n{END}{after}"


def _row(entry: PlatformEntry) -> str:
    limits, can = entry.limits, entry.capabilities
    if entry.name == "bridge":
        return "| [bridge](bridge.md) | as its settings say | yes | no | no | no | no | as they say | as they say |"
    cells = (
        f"[{entry.title or entry.name}]({entry.name}.md)",
        f"{limits.length:,} {_UNITS[limits.unit]}",
        _yes(there=can.threads),
        _yes(there=can.buttons),
        _edits(entry) if can.edits else "no",
        _yes(there=can.typing),
        _yes(there=can.reactions),
        _files(entry),
        "sends the same key"
        if can.idempotency_key
        else "looks into the history"
        if can.history
        else "marks it",
    )
    return f"| {' | '.join(cells)} |"


def _yes(*, there: bool) -> str:
    return "yes" if there else "no"


def _edits(entry: PlatformEntry) -> str:
    limits = entry.limits
    most = [each for each in (limits.edits_per_minute, (limits.edits_per_second or 0) * 60) if each]
    return f"{min(most):.0f}" if most else "yes"


def _files(entry: PlatformEntry) -> str:
    if not entry.limits.files:
        return "no"
    most = entry.limits.file_bytes
    return "yes" if most is None else f"{most / 1e6:,.0f} MB"


def main(path: Path) -> None:
    """Write the page anew."""
    path.write_text(with_table(path.read_text("utf-8"), Registry.discover(())), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
