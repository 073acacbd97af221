"""What the bridge thread does with thespian. The only module of this process that calls it."""

import contextlib
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace

from thespian.actors import ActorSystem
from thespian.system import systemBase as system_base  # noqa: N813 a module

from actors.cluster.child import CLASS
from actors.cluster.thespian_base import ADDRESS, START, TiedBase, admin_name

system_base.MAX_CHILD_ACTOR_CREATE_DELAY = timedelta(seconds=10)  # it would wait for 50


class Bridge:
    """An open thespian system."""

    def __init__(self, system: ActorSystem) -> None:
        self._system = system

    def make(self, order: bytes) -> None:
        """Make a process, and tell it one thing. Blocks; raises what thespian raises."""
        self._system.tell(self._system.createActor(CLASS), order)


@contextlib.contextmanager
def opened(socket_path: str, token: str, is_broken: Callable[[], bool]) -> Iterator[Bridge]:
    """Start a system; shut it down at the end, unless it is broken and would not answer. Blocks."""
    zone = os.environ.get("TZ")  # noqa: TID251 thespian sets it, to spare itself some look-ups
    capabilities = {**START, ADDRESS: admin_name(socket_path, token)}
    try:
        # thespian finds only its own bases by name: ours is handed over ready-made.
        base = TiedBase(SimpleNamespace(capabilities=capabilities))
        system = ActorSystem(base, capabilities=capabilities, transientUnique=True)
    finally:
        if zone is None:
            os.environ.pop("TZ", None)  # noqa: TID251 no clock of this process is to change
    try:
        yield Bridge(system)
    finally:
        if not is_broken():
            system.shutdown()
        base.transport.close()  # it ends the thread that reads, which a shutdown that fails leaves behind
        for each in (base.transport._adminQ, base.transport._myInputQ):  # noqa: SLF001 it leaves their threads
            each.close()
            each.cancel_join_thread()
