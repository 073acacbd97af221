"""For all tests: a clock in the hand, a system of actors, and the rule that a test leaves nothing behind."""

import asyncio
import inspect
import signal
import threading
from collections.abc import AsyncIterator, Iterator

import pykka
import pytest

from actors.runtime import ActorSystem
from tests.fakes.clock import ManualClock

GRACE_S = 2.0
"""How long what is ending already may take to be gone."""

ALLOWED_THREADS = {
    "asyncio_": "the loop's default executor; it ends with the loop, after the check",
    "pytest_timeout": "the time budget's own",
    "tokio": "a library's runtime that lives as long as the process",
}


def pytest_configure() -> None:
    """Take interrupts, which a shell lets its background jobs ignore: our processes inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Try a slow test up to two times more: it talks to real processes, on machines that stand still for seconds.

    Each further try is shown. Whatever needs one often is a fault.
    """
    for item in items:
        if item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.flaky(reruns=2))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def system(clock: ManualClock) -> AsyncIterator[ActorSystem]:
    system = ActorSystem(clock)
    yield system
    await system.stop_all()


@pytest.fixture
async def leaves_no_task() -> AsyncIterator[None]:
    yield
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if not tasks:
        return
    _, left = await asyncio.wait(tasks, timeout=GRACE_S)
    if left:
        pytest.fail(f"left behind: tasks {sorted(task.get_name() for task in left)}")


@pytest.fixture(autouse=True)
def leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test after which an actor, a task or a thread lives that did not live before."""
    threads = set(threading.enumerate())
    actors = set(pykka.ActorRegistry.get_all())
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("leaves_no_task")
    yield
    left = [ref for ref in pykka.ActorRegistry.get_all() if ref not in actors]
    for ref in left:
        ref.stop(block=False)
    new = [
        t for t in threading.enumerate() if t not in threads and not t.name.startswith(tuple(ALLOWED_THREADS))
    ]
    for thread in new:
        thread.join(GRACE_S)
    alive = [thread.name for thread in new if thread.is_alive()]
    if left or alive:
        pytest.fail(f"left behind: actors {[str(ref) for ref in left]}, threads {alive}")
