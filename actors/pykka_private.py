"""The only module that touches pykka's private names; its version is pinned in requirements/run.txt."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pykka
from pykka._envelope import Envelope
from pykka.messages import ProxyCall, ProxyGetAttr, ProxySetAttr, _ActorStop

__all__ = ["PYKKA_KINDS", "ActorStop", "Envelope", "actor_of", "registry"]

ActorStop = _ActorStop
PYKKA_KINDS: Final = frozenset((_ActorStop, ProxyCall, ProxyGetAttr, ProxySetAttr))
"""What pykka itself says to actors."""


def actor_of(ref: "pykka.ActorRef[Any]") -> Any:
    """Return the actor behind a ref; None when it is gone."""
    return ref._actor_weakref()  # noqa: SLF001


class _RefTable:
    """The registry's list of refs as a dictionary: removing one of thirty thousand is one step."""

    def __init__(self, refs: Iterable[Any]) -> None:
        self._refs: dict[Any, None] = dict.fromkeys(refs)

    def append(self, ref: Any) -> None:
        self._refs[ref] = None

    def remove(self, ref: Any) -> None:
        del self._refs[ref]

    def __contains__(self, ref: object) -> bool:
        return ref in self._refs

    def __iter__(self) -> Iterator[Any]:
        return iter(self._refs)

    def __len__(self) -> int:
        return len(self._refs)

    def __getitem__(self, part: slice) -> list[Any]:
        return list(self._refs)[part]


registry = pykka.ActorRegistry  # noqa: TID251 pykka's own rules need it
registry._actor_refs = _RefTable(registry._actor_refs)  # type: ignore[assignment]  # noqa: SLF001
